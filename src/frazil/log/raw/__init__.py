"""Raw appends: they are stored as the client sent them, and decoded into rows when somebody reads them."""
