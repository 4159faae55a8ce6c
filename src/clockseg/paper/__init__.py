"""The paper's own: FCN-8s, the import of its weights, the equations, and a file for each table and figure."""
