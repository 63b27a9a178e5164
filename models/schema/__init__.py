"""The fields that items carry: their JSON types, names, mapping and tables. Pure."""
