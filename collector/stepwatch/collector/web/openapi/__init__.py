"""The OpenAPI document of the HTTP interface, made from the routes and the types in `schema`."""
