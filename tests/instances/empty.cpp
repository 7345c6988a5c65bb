// Only carries the headers that the tests have in common.
