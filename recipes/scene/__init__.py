"""The recipe of `scene`, the bundled network of 32 general classes, trained by distillation."""
