// Pipes where files belong: read where somebody writes, waited for aloud where nobody does.

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "case_name.h"
#include "program.h"

namespace tessera::test::host_pipe_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A way to a file, and what is read there.
struct Way {
  const char* name;
  std::vector<std::string> words;  ///< FILE is the path
  const char* text;
  const char* printed;  ///< "" where reading is enough
};
void PrintTo(const Way& way, std::ostream* stream) { *stream << way.name; }

const char* const kConfig =
    R"({ "model_type": "opt", "architectures": ["OPTForCausalLM"], "hidden_size": 768, "ffn_dim": 3072,
"num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 50272,
"max_position_embeddings": 2048, "word_embed_proj_dim": 768 })";

const Way kWays[] = {
    {"script", {"FILE"}, "print 'from a pipe'", "from a pipe\n"},
    {"verb_run", {"run", "FILE"}, "print 'from a pipe'", "from a pipe\n"},
    {"dofile", {"-e", "print(dofile(...))", "FILE"}, "return 42", "42\n"},
    {"loadfile", {"-e", "print(loadfile(...)())", "FILE"}, "return 42", "42\n"},
    {"require", {"-e", "package.path = (...) print(require 'x')", "FILE"}, "return 42", "42\n"},
    {"config",
     {"-e", "print(require('tessera').model { config = (...) }.num_layers)", "FILE"},
     kConfig,
     "12\n"},
    {"text", {"-e", "print(require('tessera.core').read_file(...))", "FILE"}, "text", "text\n"},
    {"lengths",
     {"-e", "print(require('tessera').workload { lengths = (...) }.prompt_tokens)", "FILE"},
     "512,100\n256,50\n",
     "384\n"},
    {"profile_data", {"-e", "print(#require('tessera').read_profile_data(...))", "FILE"}, "", ""},
    {"plan", {"-e", "print(require('tessera').load_plan(...).status)", "FILE"}, "", ""},
};

class Pipe : public FolderTest, public testing::WithParamInterface<Way> {
 protected:
  Pipe() { EXPECT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0); }

  std::vector<std::string> words(const std::string& target) const {
    std::vector<std::string> words = GetParam().words;
    std::replace(words.begin(), words.end(), std::string("FILE"), target);
    return words;
  }
};

TEST_P(Pipe, IsReadAsAFileIs) {
  const Process plain = run_program(words(file("file", GetParam().text)));
  std::thread writer([&] { std::ofstream(path("pipe")) << GetParam().text; });
  const Process piped = run_program(words(path("pipe")), {.timeout_s = 20});
  writer.join();
  EXPECT_EQ(piped.status, plain.status) << piped.err;
  EXPECT_EQ(piped.out, plain.out);
  if (*GetParam().printed != '\0') {
    EXPECT_EQ(piped.status, 0) << piped.err;
    EXPECT_EQ(piped.out, GetParam().printed);
  }
}

TEST_P(Pipe, ThatNobodyWritesIsWaitedForAloudUntilCtrlC) {
  const Process p = run_program(words(path("pipe")), {.wait_for = "Ctrl-C ends the wait",
                                                      .then = [](pid_t id) { kill(id, SIGINT); }});
  EXPECT_EQ(p.status, 130) << p.err;
  EXPECT_THAT(p.err, HasSubstr("tessera: waiting for '" + path("pipe") +
                               "': it is a pipe that holds nothing to read"));
  EXPECT_THAT(p.err, HasSubstr("interrupted while waiting for '" + path("pipe") + "'"));
  EXPECT_EQ(p.out, "");
}

INSTANTIATE_TEST_SUITE_P(Ways, Pipe, testing::ValuesIn(kWays), case_name);

class Pipes : public FolderTest {
 protected:
  Process shell(const std::string& command) const {
    return run_process({"/bin/bash", "-c", command, TESSERA_PROGRAM}, {.timeout_s = 20});
  }
};

TEST_F(Pipes, AShellsProcessSubstitutionIsAScript) {
  EXPECT_EQ(shell("\"$0\" <(echo 'print(1)')").out, "1\n");
  EXPECT_EQ(shell("\"$0\" <(true)").status, 0);
  EXPECT_EQ(shell("echo 'print(1)' | \"$0\" -").out, "1\n");
  EXPECT_EQ(shell("echo 'print(1)' | \"$0\" /dev/stdin").out, "1\n");
}

TEST_F(Pipes, ASweepOfAPipedScriptRunsInOneProcess) {
  file("x.lua",
       "return require('tessera').experiment { name = 'p/x', doc = 'd', grid = { i = { 1, 2 } }, "
       "run = function(point) return { x_s = point.i } end }");
  const Process p = shell("cd " + folder_.string() + " && \"$0\" run <(cat x.lua)");
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_TRUE(fs::exists(path("results.db")));
}

TEST_F(Pipes, SavingIntoAPipeWaitsForItsReaderAloud) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const std::vector<std::string> words = {"plan",     "--model", "opt-125m",  "--cluster",
                                          "1xT4-16G", "--save",  path("pipe")};
  std::string got;
  std::thread reader([&] { got = read(path("pipe")); });
  EXPECT_EQ(run_program(words, {.timeout_s = 20}).status, 0);
  reader.join();
  EXPECT_THAT(got, HasSubstr("\"format\": \"tessera-plan\""));
  const Process p = run_program(
      words, {.wait_for = "Ctrl-C ends the wait", .then = [](pid_t id) { kill(id, SIGINT); }});
  EXPECT_EQ(p.status, 130) << p.err;
  EXPECT_THAT(p.err, HasSubstr("a pipe that nobody has opened to read from"));
}

}  // namespace
}  // namespace tessera::test::host_pipe_test
