"""The main job: from video files to label maps, overlays and traces."""
