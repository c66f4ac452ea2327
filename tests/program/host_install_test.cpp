// Scripts run from any directory, from the build tree and from an install prefix.

#include "program.h"

namespace tessera::test::host_install_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> examples(const fs::path& folder) {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".lua") found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

class Install : public FolderTest {
 protected:
  Process run_in(const std::string& directory, std::vector<std::string> command) {
    ProcessSetup setup;
    setup.directory = directory;
    setup.timeout_s = 240;
    return run_process(command, setup);
  }
  void expect_examples_run(const std::string& program, const fs::path& folder) {
    const std::vector<std::string> scripts = examples(folder);
    EXPECT_GE(scripts.size(), 5u);
    for (const std::string& script : scripts) {
      const Process p = run_in("/", {program, script});
      EXPECT_EQ(p.status, 0) << script << "\n" << p.err;
      EXPECT_FALSE(p.out.empty()) << script;
      EXPECT_THAT(p.err, IsEmpty()) << script;
    }
  }
};

TEST_F(Install, ExamplesRunFromThePrefix) {
  const std::string prefix = path("prefix with space");
  const Process install =
      run_in("/", {TESSERA_CMAKE, "--install", TESSERA_BUILD_DIR, "--prefix", prefix});
  ASSERT_EQ(install.status, 0) << install.err;
  const std::string program = prefix + "/bin/tessera";
  expect_examples_run(program, prefix + "/share/tessera/experiments/examples");

  EXPECT_TRUE(fs::exists(prefix + "/share/man/man1/tessera.1.gz"));
  EXPECT_TRUE(fs::exists(prefix + "/share/bash-completion/completions/tessera"));
  const Process list = run_in("/", {program, "list"});
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.out, HasSubstr("examples/01_first_plan"));
  const Process where = run_in(
      folder_.string(), {program, "-e", "print(require 'tessera.host'.installation.scripts_dir)"});
  EXPECT_EQ(where.out, fs::canonical(prefix).string() + "/share/tessera/scripts\n");
  const Process by_name = run_in("/", {program, "examples/02_own_model"});
  EXPECT_EQ(by_name.status, 0) << by_name.err;
  fs::create_symlink(program, path("link"));
  EXPECT_EQ(run_in("/", {path("link"), "plan", "--model", "opt-125m", "--cluster", "1xT4-16G",
                         "--planner", "uniform"})
                .status,
            0);
}

TEST_F(Install, RelativePathsAreOfTheCallersDirectory) {
  file("scripts/mine.lua",
       "local ts = require 'tessera'\n"
       "print(ts.model { config = 'model/config.json' })\n");
  file("model/config.json",
       R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
           "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 100,
           "max_position_embeddings": 64})");
  const Process p = run_in(folder_.string(), {TESSERA_PROGRAM, "scripts/mine.lua"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_THAT(p.out, HasSubstr("model model: llama, 3 layers"));
  const Process saved =
      run_in(folder_.string(),
             {TESSERA_PROGRAM, "plan", "--model", "./model", "--cluster", "1xT4-16G", "--planner",
              "uniform", "--prompt-tokens", "16", "--output-tokens", "4", "--save", "plan.json"});
  EXPECT_EQ(saved.status, 0) << saved.err;
  EXPECT_TRUE(fs::exists(path("plan.json")));
}

TEST_F(Install, ADirectoryThatIsGone) {
  fs::create_directory(path("gone"));
  ProcessSetup setup;
  setup.directory = path("gone");
  setup.in_child = [] { [[maybe_unused]] const int done = rmdir("../gone"); };
  EXPECT_EQ(run_program({"-e", "print(1)"}, setup).out, "1\n");
  fs::create_directory(path("gone"));
  expect_refusal(run_program({"-e", "require('tessera').load_plan 'x'"}, setup), 1, "No such file");
}

}  // namespace
}  // namespace tessera::test::host_install_test
