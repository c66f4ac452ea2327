-- Pixels that a plot may be wide.
return { min = 240, max = 10000 }
