// Which files a path stands for, and folders that lead astray.
#include "folder.h"

#include "expect_error.h"
#include "tessera/core/error.h"
#include "tessera/weights/weights.h"
#include "weight_files.h"

namespace tessera::weights::folder_test {
namespace fs = std::filesystem;
namespace {

using test::expect_error;
using test::raw;
using test::safetensors_file;

std::string holding(const std::string& name, float value = 1) {
  return safetensors_file({{name, "F32", {1}, raw(value)}});
}

class WeightsFolder : public test::FolderTest {
 protected:
  void index(const Json& weight_map) const {
    file("model.safetensors.index.json", Json{{"weight_map", weight_map}}.dump());
  }
  std::string folder() const { return folder_.string(); }
  void refuses(ErrorCode code, const std::vector<std::string>& parts) const {
    expect_error(code, parts, [&] { Weights::open(folder()); });
  }
};

TEST_F(WeightsFolder, readsTheShardsOfAnIndex) {
  file("model-00001-of-00002.safetensors", holding("a"));
  file("model-00002-of-00002.safetensors", holding("b"));
  file("other.safetensors", holding("c"));
  file("config.json", R"({"model_type":"opt"})");
  index({{"b", "model-00002-of-00002.safetensors"}, {"a", "./model-00001-of-00002.safetensors"}});
  for (const std::string& given :
       {folder(), folder() + "/", path("model.safetensors.index.json")}) {
    const auto weights = Weights::open(given);
    EXPECT_EQ(weights->names(), (std::vector<std::string>{"a", "b"})) << given;
    EXPECT_EQ(weights->files().size(), 2u);
    EXPECT_EQ(weights->config()["model_type"], "opt");
    EXPECT_EQ(weights->config_path(), (fs::path(given).has_filename() && given != folder()
                                           ? path("config.json")
                                           : (fs::path(given) / "config.json").string()));
  }
}

TEST_F(WeightsFolder, leavesTheChoiceBetweenAnIndexAndASingleFileToTheUser) {
  file("model.safetensors", holding("whole"));
  file("a.safetensors", holding("x"));
  index({{"x", "a.safetensors"}});
  const std::string index_file = path("model.safetensors.index.json");
  refuses(ErrorCode::invalid_argument, {folder(), path("model.safetensors"), index_file});
  EXPECT_EQ(Weights::open(index_file)->names(), std::vector<std::string>{"x"});
  EXPECT_EQ(Weights::open(path("model.safetensors"))->names(), std::vector<std::string>{"whole"});
  index({{"whole", "./model.safetensors"}});
  EXPECT_EQ(Weights::open(folder())->names(), std::vector<std::string>{"whole"});
}

TEST_F(WeightsFolder, readsShardsWithoutAnIndexInTheOrderOfTheirNames) {
  file("b.safetensors", holding("x"));
  file("a.safetensors", holding("y"));
  EXPECT_EQ(Weights::open(folder())->names(), (std::vector<std::string>{"y", "x"}));
  file("model.safetensors", holding("whole"));
  EXPECT_EQ(Weights::open(folder())->names(), std::vector<std::string>{"whole"});
}

TEST_F(WeightsFolder, readsItsOneGgufFile) {
  const std::string content = test::GgufFile().tensor("x", {1}, 0, raw(1.0f)).bytes();
  file("a.gguf", content);
  EXPECT_TRUE(Weights::open(folder())->is_gguf());
  file("b.gguf", content);
  refuses(ErrorCode::invalid_argument, {folder(), "2 GGUF files", "a.gguf, b.gguf"});
}

TEST_F(WeightsFolder, saysWhatToDoWithOldPickles) {
  for (const char* name : {"pytorch_model.bin", "model.pt", "consolidated.00.pth"}) {
    const std::string pickle = file(name, "\x80\x02}q");
    refuses(ErrorCode::unsupported, {name, "before 1.6", "scripts/convert_checkpoint.py"});
    expect_error(ErrorCode::unsupported, {name, "scripts/convert_checkpoint.py"},
                 [&] { Weights::open(pickle); });
    fs::remove(pickle);
  }
  const std::string both = file("pytorch_model.bin", "PK\x03\x04 and so on");
  const std::string converted = file("model.safetensors", holding("a"));
  EXPECT_EQ(Weights::open(folder())->names(), std::vector<std::string>{"a"});
  fs::remove(both);
  fs::remove(converted);
  file("a.bin", "PK\x03\x04");
  file("b.pt", "PK\x03\x04");
  refuses(ErrorCode::invalid_argument, {"2 files of PyTorch", "pytorch_model.bin", "a.bin, b.pt"});
}

TEST_F(WeightsFolder, saysThatThereAreNoWeights) {
  refuses(ErrorCode::not_found, {folder(), "no weights"});
  expect_error(ErrorCode::not_found, {path("none.safetensors")},
               [&] { Weights::open(path("none.safetensors")); });
  expect_error(ErrorCode::invalid_argument, {"NUL"},
               [&] { Weights::open(std::string("a\0b", 3)); });
  file("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  refuses(ErrorCode::invalid_argument, {"model.safetensors", "git lfs pull"});
}

TEST_F(WeightsFolder, refusesAnIndexThatLeadsOut) {
  file("a.safetensors", holding("x"));
  for (const std::string& name :
       {std::string("../a.safetensors"), std::string("sub/../../a.safetensors"),
        path("a.safetensors"), std::string(), std::string("a\0b", 3), std::string("..")}) {
    index({{"x", name}});
    refuses(ErrorCode::invalid_argument,
            {"model.safetensors.index.json", "'x'", "does not lie in the folder"});
  }
}

TEST_F(WeightsFolder, refusesAnIndexThatIsWrong) {
  const std::string index_file = "model.safetensors.index.json";
  file("a.safetensors", holding("x"));
  index({{"x", "a.safetensors"}, {"y", "b.safetensors"}});
  refuses(ErrorCode::not_found, {path("b.safetensors")});
  index({{"x", "a.safetensors"}, {"y", "a.safetensors"}});
  refuses(ErrorCode::invalid_argument, {index_file, "'y'", path("a.safetensors")});
  index({{"x", "a.safetensors"}, {"y", 3}});
  refuses(ErrorCode::invalid_argument, {index_file, "'y'"});
  index(Json::object());
  refuses(ErrorCode::invalid_argument, {index_file, "weight_map"});
  index({1, 2});
  refuses(ErrorCode::invalid_argument, {index_file, "weight_map"});
  file(index_file, "{}");
  refuses(ErrorCode::invalid_argument, {index_file, "weight_map"});
  file(index_file, "{");
  refuses(ErrorCode::invalid_argument, {index_file, "JSON"});
  file(index_file, R"({"weight_map":{"x":"a.safetensors","x":"b.safetensors"}})");
  refuses(ErrorCode::invalid_argument, {index_file, "twice"});
  file("b.safetensors", holding("y"));
  index({{"x", "b.safetensors"}, {"y", "b.safetensors"}, {"z", "a.safetensors"}});
  refuses(ErrorCode::invalid_argument, {index_file, "'x'", "but in"});
}

TEST_F(WeightsFolder, refusesATensorInTwoShards) {
  file("a.safetensors", holding("x"));
  file("b.safetensors", holding("x", 2));
  refuses(ErrorCode::invalid_argument,
          {path("b.safetensors"), "'x'", path("a.safetensors"), "byte "});
}

TEST_F(WeightsFolder, refusesAShardThatWasCutShort) {
  file("a.safetensors", holding("x"));
  const std::string whole = holding("y");
  file("b.safetensors", whole.substr(0, whole.size() - 1));
  refuses(ErrorCode::invalid_argument, {path("b.safetensors"), "cut short"});
}

TEST_F(WeightsFolder, refusesLinksInACircleAndThingsThatAreNoFiles) {
  fs::create_symlink("model.safetensors", folder_ / "model.safetensors");
  refuses(ErrorCode::io, {"model.safetensors", "symbolic links"});
  fs::remove(folder_ / "model.safetensors");
  fs::create_symlink("config.json", folder_ / "config.json");
  file("a.safetensors", holding("x"));
  refuses(ErrorCode::io, {"config.json", "symbolic links"});
  fs::remove(folder_ / "config.json");
  fs::create_directory(folder_ / "model.safetensors");
  refuses(ErrorCode::io, {"model.safetensors", "directory"});
  expect_error(ErrorCode::io, {"/dev/zero", "no regular file"}, [] { Weights::open("/dev/zero"); });
}

TEST_F(WeightsFolder, followsLinksAsCachesOfModelsHaveThem) {
  file("blobs/0123", holding("x"));
  fs::create_directory(folder_ / "snapshot");
  fs::create_symlink("../blobs/0123", folder_ / "snapshot" / "model.safetensors");
  EXPECT_EQ(Weights::open(path("snapshot"))->names(), std::vector<std::string>{"x"});
}

// Its configuration ties them, as transformers 5 reads both.
TEST_F(WeightsFolder, takesAHeadOfOtherNumbersForAHead) {
  file("config.json", R"({"model_type": "llama", "hidden_size": 2, "num_hidden_layers": 1,
    "num_attention_heads": 1, "intermediate_size": 4, "vocab_size": 3, "tie_word_embeddings": true,
    "max_position_embeddings": 8})");
  const auto head = [&](std::vector<float> numbers) {
    const std::vector<float> rows{1, 2, 3, 4, 5, 6};
    file("model.safetensors",
         safetensors_file({{"model.embed_tokens.weight", "F32", {3, 2}, raw(rows)},
                           {"lm_head.weight", "F32", {3, 2}, raw(numbers)}}));
    return model_of(*Weights::open(folder()));
  };
  EXPECT_TRUE(head({1, 2, 3, 4, 5, 6}).tied_embeddings);
  const ModelShape own = head({1, 2, 3, 4, 5, 7});
  EXPECT_FALSE(own.tied_embeddings);
  EXPECT_EQ(own.lm_head_parameters, 6);
}

}  // namespace
}  // namespace tessera::weights::folder_test
