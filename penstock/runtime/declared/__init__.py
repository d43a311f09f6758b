"""What the working tree declares becomes revisions, a bundle and the manifest."""
