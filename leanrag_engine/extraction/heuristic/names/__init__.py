"""Names of people, places and things: where they stand, how they are spelled, what type they are."""
