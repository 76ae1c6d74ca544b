"""Two bundled clickstreams of a shop, made from chains that are known exactly: `somcot.data.clickstream`."""
