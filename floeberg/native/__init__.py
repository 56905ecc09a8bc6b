"""Native mode set up and tried: what the broker needs, which lines say so, and a record there and back."""
