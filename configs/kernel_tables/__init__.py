"""Tables of measured kernel times: how they are read, and what of them a fit takes."""
