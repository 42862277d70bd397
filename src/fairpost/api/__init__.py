"""The service over HTTP: who may ask what, and how it is answered. What is done is done elsewhere."""
