"""One follower per kind of table, and the batch form it is held equal to."""
