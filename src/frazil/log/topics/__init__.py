"""Topics in the object store: their schemas, their creation and deletion, their names."""
