-- What of a deployment was simulated for its rate, by the scope of its row, in words.

return {
  whole = "simulated as a whole",
  ["one engine"] = "one engine of many was simulated, alone, and counts so many times",
  half = "simulated with half the requests, several sets of pools by the smallest in their ratio",
}
