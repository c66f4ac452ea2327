-- Kinds of plan:export: the module that knows the runtime's servers; false for data alone.

return { vllm = "tessera.launch.vllm", ["llama.cpp"] = "tessera.launch.llama_cpp", json = false }
