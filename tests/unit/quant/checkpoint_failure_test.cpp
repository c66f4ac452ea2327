// Checkpoints that cannot be written: no room, no permission, a process that ends midway. A folder
// under the final name is complete.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/access.h"
#include "tessera/quant/checkpoint.h"
#include "tiny_llama.h"

namespace tessera::quant::checkpoint_failure_test {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TinyLlama;

class CheckpointFailure : public test::FolderTest {
 protected:
  CheckpointFailure() {
    folder_ = fs::canonical(folder_);
    TinyLlama(21).write(path("in/tiny"));
    fs::create_directories(path("work"));
  }

  CheckpointRequest request(const std::string& out) const {
    CheckpointRequest made;
    made.model = path("in/tiny");
    made.out = out;
    made.bitwidths = {4, 8, 3};
    made.scheme.group_size = 32;
    made.num_threads = 1;  // the cases run in processes of their own, which have no other thread
    return made;
  }
  CheckpointRequest request() const { return request(path("work/out")); }

  std::vector<std::string> left_in_work() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path("work")))
      names.push_back(entry.path().filename().string());
    return names;
  }

  // As a disk that fills up: a file of the checkpoint takes more, config.json does not.
  static void limit_file_size() {
    std::signal(SIGXFSZ, SIG_IGN);  // as the program does
    const rlimit limit{20'000, 20'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }

  // Ends the process of a case: 0 where the error has all of `parts`.
  [[noreturn]] static void finish(const CheckpointRequest& request,
                                  const std::vector<std::string>& parts) {
    std::string message;
    try {
      quantise_checkpoint(request);
      message = "no error";
    } catch (const Error& error) {
      message = error.what();
    }
    for (const std::string& part : parts) {
      if (message.find(part) != std::string::npos) continue;
      std::fprintf(stderr, "%s\n", message.c_str());
      std::_Exit(1);
    }
    std::_Exit(0);
  }
};

TEST_F(CheckpointFailure, SaysWhatTheDiskLacksBeforeItWrites) {
  // A model larger than the disk, of holes: an embedding that nobody reads.
  const auto free_bytes = static_cast<std::int64_t>(fs::space(folder_).available);
  const std::int64_t rows = free_bytes / 64 + (1 << 20);
  Json header{
      {"notes.weight", {{"dtype", "U8"}, {"shape", {rows, 64}}, {"data_offsets", {0, rows * 64}}}}};
  const std::string text = header.dump();
  const auto length = static_cast<std::uint64_t>(text.size());
  std::string start(sizeof length, '\0');
  std::memcpy(start.data(), &length, sizeof length);
  const std::string large = file("in/tiny/notes.safetensors", start + text);
  if (::truncate(large.c_str(), static_cast<off_t>(8 + text.size()) + rows * 64) != 0)
    GTEST_SKIP() << "this file system holds no file of " << rows * 64 << " bytes";
  fs::rename(path("in/tiny/model.safetensors"), path("in/tiny/layers.safetensors"));
  expect_error(ErrorCode::io, {"work/out", "the result takes", "the disk has", "left"},
               [&] { quantise_checkpoint(request()); });
  EXPECT_EQ(left_in_work(), std::vector<std::string>{});
}

TEST_F(CheckpointFailure, LeavesNothingWhereWritingFails) {
  EXPECT_EXIT(
      {
        limit_file_size();
        finish(request(), {"cannot write", "model.safetensors", "File too large"});
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(left_in_work(), std::vector<std::string>{});
}

TEST_F(CheckpointFailure, KeepsTheEarlierResultWhereWritingFails) {
  quantise_checkpoint(request());
  const std::string before = read(path("work/out/model.safetensors"));
  EXPECT_EXIT(
      {
        limit_file_size();
        CheckpointRequest again = request();
        again.overwrite = true;
        finish(again, {"File too large"});
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(left_in_work(), std::vector<std::string>{"out"});
  EXPECT_EQ(read(path("work/out/model.safetensors")), before);
}

TEST_F(CheckpointFailure, DeletesNothingThatIsNoEarlierResult) {
  quantise_checkpoint(request());
  CheckpointRequest again = request();
  again.overwrite = true;
  quantise_checkpoint(again);  // its own files may go
  file("work/out/notes.txt", "mine");
  expect_error(ErrorCode::io, {"work/out", "notes.txt", "not among the files"},
               [&] { quantise_checkpoint(again); });
  EXPECT_EQ(read(path("work/out/notes.txt")), "mine");
  fs::remove(path("work/out/notes.txt"));
  TinyLlama(22).write(path("work/out/base"));
  again.model = path("work/out/base");
  expect_error(ErrorCode::invalid_argument, {"work/out/base", "lies in", "would replace"},
               [&] { quantise_checkpoint(again); });
  again.model = path("in/tiny");
  expect_error(ErrorCode::io, {"base", "not among the files"}, [&] { quantise_checkpoint(again); });
  EXPECT_TRUE(fs::exists(path("work/out/base/model.safetensors")));
  fs::remove_all(path("work/out/base"));
  file("work/out/tessera_quantisation.json", "{}");  // of nobody knows what
  expect_error(ErrorCode::io, {"not among the files"}, [&] { quantise_checkpoint(again); });
}

TEST_F(CheckpointFailure, CopiesNothingThatALinkBringsIn) {
  file("secret", "root:x:0:0");
  fs::remove(path("in/tiny/tokenizer.json"));
  fs::create_symlink(path("secret"), path("in/tiny/tokenizer.json"));
  expect_error(ErrorCode::invalid_argument, {"tokenizer.json", "link to", "secret"},
               [&] { quantise_checkpoint(request()); });
  EXPECT_EQ(left_in_work(), std::vector<std::string>{});
  // As a cache of Hugging Face has it.
  file("hub/blobs/1a", "{}");
  fs::create_directories(path("hub/snapshots"));
  fs::rename(path("in/tiny"), path("hub/snapshots/abc"));
  fs::remove(path("hub/snapshots/abc/tokenizer.json"));
  fs::create_symlink("../../blobs/1a", path("hub/snapshots/abc/tokenizer.json"));
  CheckpointRequest cached = request();
  cached.model = path("hub/snapshots/abc");
  quantise_checkpoint(cached);
  EXPECT_EQ(read(path("work/out/tokenizer.json")), "{}");
}

TEST_F(CheckpointFailure, NoFolderHasTheFinalNameWhenTheProcessIsKilled) {
  EXPECT_EXIT(
      {
        CheckpointRequest killed = request();
        killed.progress = [](const CheckpointProgress& at) {
          if (at.done == 5) std::raise(SIGKILL);
        };
        finish(killed, {});
      },
      testing::KilledBySignal(SIGKILL), "");
  ASSERT_EQ(left_in_work().size(), 1u);
  EXPECT_EQ(left_in_work()[0].rfind("out.partial.", 0), 0u) << left_in_work()[0];
  quantise_checkpoint(request());
  EXPECT_EQ(left_in_work(), std::vector<std::string>{"out"});
  EXPECT_TRUE(fs::exists(path("work/out/config.json")));
}

// Whatever is read or written is asked for: the engine's own check, without the system's.
TEST_F(CheckpointFailure, ASandboxHoldsItIn) {
  TinyLlama(22).write(path("elsewhere/tiny"));
  TinyLlama(22).write_statistics(path("elsewhere/statistics"));
  const auto refused = [&](CheckpointRequest request, const std::vector<std::string>& parts) {
    EXPECT_EXIT(
        {
          restrict_access({path("work"), {path("in")}});
          finish(request, parts);
        },
        testing::ExitedWithCode(0), "");
    EXPECT_EQ(left_in_work(), std::vector<std::string>{});
  };
  refused(request(path("elsewhere/out")), {"the sandbox does not write", "elsewhere/out"});
  refused(request(path("in/out")), {"the sandbox does not write", "in/out"});
  refused(request(path("work/../elsewhere/out")), {"the sandbox does not write"});
  CheckpointRequest other = request();
  other.model = path("elsewhere/tiny");
  refused(other, {"the sandbox does not read", "elsewhere/tiny"});
  other = request();
  other.method = Method::gptq;
  other.statistics = path("elsewhere/statistics");
  refused(other, {"the sandbox does not read", "elsewhere/statistics"});
  // Links out of a folder that may be read.
  fs::create_symlink(path("elsewhere/tiny"), path("in/link"));
  other = request();
  other.model = path("in/link");
  refused(other, {"the sandbox does not read", "in/link"});
  fs::create_symlink(path("elsewhere/tiny/tokenizer.json"), path("in/tiny/vocab.json"));
  refused(request(), {"the sandbox does not read", "vocab.json"});
  fs::remove(path("in/tiny/vocab.json"));
  fs::rename(path("in/tiny/model.safetensors"), path("elsewhere/model.safetensors"));
  fs::create_symlink(path("elsewhere/model.safetensors"), path("in/tiny/model.safetensors"));
  refused(request(), {"the sandbox does not read", "model.safetensors"});
}

TEST_F(CheckpointFailure, ASandboxLetsItWorkWhereItMay) {
  EXPECT_EXIT(
      {
        restrict_access({path("work"), {path("in")}});
        finish(request(), {"no error"});
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(left_in_work(), std::vector<std::string>{"out"});
}

}  // namespace
}  // namespace tessera::quant::checkpoint_failure_test
