// Verbs that run models: Ctrl-C keeps what is done. On the module without arithmetic of
// tests/lua/fake_model; what the verbs print is in its verbs_spec.
#include <dlfcn.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "program.h"
#include "terminal.h"

namespace tessera::test::model_verbs_test {
namespace {

using testing::HasSubstr;

class ModelVerbs : public FolderTest {
 protected:
  // A model of bytes that takes 20 ms a step.
  ModelVerbs() {
    const std::string tiny =
        std::string(TESSERA_SOURCE_DIR) + "/experiments/indicator/data/tiny_llama/";
    nlohmann::json config = nlohmann::json::parse(read(tiny + "config.json"));
    config["vocab_size"] = 260;
    config["max_position_embeddings"] = 100000;
    file("model/config.json", config.dump());
    file("model/model.safetensors", read(tiny + "model.safetensors"));
    file("model/slow_machine", "");
  }

  Process interrupted(std::vector<std::string> words, const std::string& wait_for) {
    ProcessSetup setup;
    setup.environment = {{"TESSERA_MODELS_MODULE", TESSERA_FAKE_MODELS}};
    setup.wait_for = wait_for;
    setup.then = [](pid_t pid) { kill(pid, SIGINT); };
    return run_program(std::move(words), setup);
  }
};

TEST_F(ModelVerbs, GenerateKeepsItsTextAtCtrlC) {
  // Its first characters are these, whatever follows.
  const Process first = interrupted({"generate", path("model"), "Hello", "--max-tokens", "2",
                                     "--temperature", "0", "--ignore-stop-tokens"},
                                    "never printed");
  ASSERT_EQ(first.status, 0) << first.err;
  const std::string text = first.out.substr(0, first.out.size() - 1);
  ASSERT_FALSE(text.empty());
  const Process p = interrupted({"generate", path("model"), "Hello", "--max-tokens", "50000",
                                 "--temperature", "0", "--ignore-stop-tokens"},
                                text);
  EXPECT_EQ(p.status, 130) << p.err;
  EXPECT_THAT(p.out, testing::StartsWith(text));
  EXPECT_THAT(p.err, HasSubstr("ended by interrupted\n"));
}

// The bar of a terminal says that some of the text is done.
TEST_F(ModelVerbs, QualityKeepsWhatIsMeasuredAtCtrlC) {
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += static_cast<char>('a' + i * i % 23);
  TerminalSetup setup;
  setup.environment = {{"TESSERA_MODELS_MODULE", TESSERA_FAKE_MODELS}};
  setup.columns = 200;
  setup.question = "tokens, perplexity";
  setup.answer = "\x03";
  const Screen s = on_terminal({"quality", path("model"), "--text", file("text", text)}, setup);
  EXPECT_EQ(s.status, 130) << s.text;
  EXPECT_THAT(s.text, HasSubstr("interrupted: as it is is of the first "));
}

TEST_F(ModelVerbs, QualityRefusesWhatIsNoText) {
  ProcessSetup setup;
  setup.environment = {{"TESSERA_MODELS_MODULE", TESSERA_FAKE_MODELS}};
  const auto refused = [&](const std::string& content, const std::string& part) {
    const std::vector<std::string> words{"quality", path("model"), "--text", file("text", content)};
    expect_refusal(run_program(words, setup), 1, part);
  };
  refused("", "is empty; there is nothing to predict");
  refused("one\ntwo\nth\xE9 end", "is no text in UTF-8: byte 10, in line 3, is 0xe9");
  refused(std::string("a\0b", 3), "is no text in UTF-8: byte 1, in line 1, is 0x00");
}

TEST_F(ModelVerbs, SayHowToBuildWhatIsMissing) {
  ProcessSetup setup;
  setup.environment = {{"TESSERA_MODELS_MODULE", path("none.so")}};
  for (const char* verb : {"generate", "quality", "bench"}) {
    std::vector<std::string> words{verb, path("model")};
    if (words[0] == "generate") words.push_back("Hello");
    if (words[0] == "quality") words.insert(words.end(), {"--text", file("text", "a text")});
    expect_refusal(run_program(words, setup), 1, "bash scripts/quickstart.sh --models");
  }
}

TEST_F(ModelVerbs, RefuseAModuleOfSomethingElse) {
  ProcessSetup setup;
  setup.environment = {{"TESSERA_MODELS_MODULE", file("text.so", "no library")}};
  expect_refusal(run_program({"generate", path("model"), "Hello"}, setup), 1,
                 "the module of models cannot be loaded");
  // What the program itself has libm from: a library without our entries, as one of another
  // version.
  Dl_info libm{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(static_cast<double (*)(double)>(::cbrt)), &libm), 0);
  setup.environment = {{"TESSERA_MODELS_MODULE", libm.dli_fname}};
  expect_refusal(run_program({"generate", path("model"), "Hello"}, setup), 1,
                 "is no module of this version of the program");
}

}  // namespace
}  // namespace tessera::test::model_verbs_test
