// A model is named in one way wherever one is wanted: a path that exists, else a name or a Hugging
// Face id, else what was meant.

#include <algorithm>

#include "program.h"

namespace tessera::test::model_paths_test {
namespace {

using testing::HasSubstr;

class ModelPaths : public FolderTest {
 protected:
  ModelPaths() {
    const std::string tiny =
        std::string(TESSERA_SOURCE_DIR) + "/experiments/indicator/data/tiny_llama/";
    for (const char* name : {"config.json", "model.safetensors"}) {
      file(std::string("mine/") + name, read(tiny + name));
      file(std::string("opt-13b/") + name, read(tiny + name));
    }
    file("opt-30b/notes.txt", "a folder that only shares the name");
  }

  Process here(std::vector<std::string> words) const {
    ProcessSetup setup;
    setup.directory = folder_.string();
    return run_program(std::move(words), setup);
  }

  // What every entry point makes of a name.
  std::vector<Process> everywhere(const std::string& name) const {
    const std::string problem =
        "cluster = 'T4-16G', workload = { prompt_tokens = 8, output_tokens = 8, batch_size = 1 }";
    return {
        here({"-e", "print(ts.model('" + name + "').num_layers)"}),
        here({"-e",
              "print(ts.problem({ model = '" + name + "', " + problem + " }).model.num_layers)"}),
        here({"-e", "print(#ts.indicator({ model = '" + name +
                        "', kind = 'constant', bitwidths = { 4 } }):omegas(4))"}),
        here(
            {"-e",
             "print(ts.profile({ device = 'T4-16G', kernel_set = 'tessera' }):layer_s({ model = '" +
                 name + "', bitwidth = 16, phase = 'prefill', batch_size = 1, tokens = 8 }) > 0)"}),
        here({"plan", "--model", name, "--cluster", "T4-16G", "--prompt-tokens", "8",
              "--output-tokens", "8", "--batch-size", "1", "--no-beside"}),
        here({"support", name, "T4-16G", "16"})};
  }
};

TEST_F(ModelPaths, AreTakenEverywhere) {
  for (const char* name : {"mine", "./mine", "mine/", "mine/config.json", "mine/model.safetensors",
                           "opt-13b", "opt-30b", "facebook/opt-30b"}) {
    SCOPED_TRACE(name);
    const std::string layers = std::string(name).find("30b") == std::string::npos ? "6\n" : "48\n";
    const std::vector<Process> all = everywhere(name);
    for (const Process& p : all) EXPECT_EQ(p.status, p.err.empty() ? 0 : 3) << p.err;
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(all[i].out, layers);
  }
}

TEST_F(ModelPaths, ThatAreNoneAreRefusedEverywhere) {
  for (const auto& [name, words] : std::vector<std::pair<std::string, std::string>>{
           {"opt-31b", "did you mean 'opt-13b', 'opt-30b'"},
           {"nobody/opt-31b", "did you mean 'opt-13b', 'opt-30b'"},
           {"none.gguf", "no such file or folder; weights are read from this machine"}}) {
    SCOPED_TRACE(name);
    for (const Process& p : everywhere(name)) expect_refusal(p, 1, words);
  }
}

TEST_F(ModelPaths, OfWeightsAreOnThisMachine) {
  for (const char* code :
       {"ts.weights 'facebook/opt-125m'", "ts.language_model { path = 'facebook/opt-125m' }",
        "ts.quantise_model { model = 'facebook/opt-125m', bitwidths = 4, out = 'q' }",
        "ts.indicator { model = 'facebook/opt-125m', kind = 'variance' }"}) {
    SCOPED_TRACE(code);
    expect_refusal(here({"-e", code}), 1, "`hf download ID --local-dir DIR`");
  }
}

}  // namespace
}  // namespace tessera::test::model_paths_test
