"""Works out what a query needs before it reads."""
