"""Today's prices from the clouds themselves: the one part of cost that speaks to the network."""
