"""Reading what people hand in: notebooks, scripts, folders, archives."""
