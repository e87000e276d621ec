"""The durable log: what every door appends to, and every read and every pipeline batch starts from."""
