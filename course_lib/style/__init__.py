"""What everything looks like: one table of colours, figures, tables and pages made from it."""
