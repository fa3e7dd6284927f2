"""A double of the perftest tools: the same text on the same streams in the same order, over the model of the fabric."""
