"""A JSON Schema, read as alternatives of plain constraints."""
