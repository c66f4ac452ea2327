-- Options of every function that plans for a model and a workload.
return {
  model = { name = "model", type = "any", lua_type = "tessera.Model|string|table", required = true,
    doc = "Model, or its name" },
  workload = { name = "workload", type = "any", lua_type = "tessera.Workload|string|table", required = true,
    doc = "Workload, or its name" },
}
