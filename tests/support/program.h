#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "process.h"

/// For tests that start the program. They are compiled with its path in TESSERA_PROGRAM.
namespace tessera::test {

/// Runs the program to its end.
inline Process run_program(std::vector<std::string> arguments, ProcessSetup setup = {}) {
  arguments.insert(arguments.begin(), TESSERA_PROGRAM);
  return run_process(arguments, std::move(setup));
}

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Whether the program refused: this status, one clear line first, nothing on stdout, no crash.
inline void expect_refusal(const Process& p, int status, const std::string& text) {
  const std::string line = first_line(p.err);
  EXPECT_EQ(p.status, status) << p.err;
  EXPECT_THAT(line, testing::StartsWith("tessera: "));
  EXPECT_THAT(line, testing::HasSubstr(text));
  EXPECT_LT(line.size(), 600u);
  EXPECT_THAT(p.err, testing::Not(testing::HasSubstr("Sanitizer")));
  EXPECT_THAT(p.err, testing::Not(testing::HasSubstr("runtime error:")));
  EXPECT_THAT(p.err, testing::Not(testing::HasSubstr("terminate called")));
}

/// A test with a folder of its own, which goes away afterwards.
class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera_test.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string file(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  static std::string read(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  std::size_t num_files() const {
    const std::filesystem::directory_iterator files(folder_);
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
  }

  std::filesystem::path folder_;
};

}  // namespace tessera::test
