"""Where a layer comes from: rows that are novel, or random weights; and what is automatic."""
