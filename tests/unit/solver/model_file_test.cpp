// Models for other solvers: a file without its end is none.

#include "ilp/model_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>

#include "case_name.h"
#include "expect_error.h"
#include "folder.h"

namespace tessera::solver::model_file_test {
namespace {

using test::expect_error;

LinearModel small_model(int num_columns) {
  LinearModel model;
  std::vector<LinearModel::Term> terms;
  for (int i = 0; i < num_columns; ++i) {
    const std::string name = "column" + std::to_string(i);
    terms.emplace_back(model.add_column(0, 1, -1.0 - i, true, name), 1.5);
  }
  model.add_row(-kFree, 3, terms, "limit");
  return model;
}

class ModelFileTest : public test::FolderTest, public testing::WithParamInterface<const char*> {};

TEST_P(ModelFileTest, ReadsWhatIsThereAndNothingThatIsCutShort) {
  const std::string whole = path(std::string("whole") + GetParam());
  write_model_file(small_model(40), whole);
  EXPECT_EQ(read_model_file(whole).columns.size(), 40u);
  EXPECT_EQ(num_files(), 1u);
  const std::string text = read(whole);
  for (const std::size_t size : {std::size_t{0}, text.size() / 2, text.size() - 3}) {
    const std::string cut = file(std::string("cut") + GetParam(), text.substr(0, size));
    expect_error(ErrorCode::invalid_argument,
                 {"cut", "ends after " + std::to_string(size) + " bytes", "that closes a model"},
                 [&] { read_model_file(cut); });
  }
  // As other programs write them.
  file(std::string("whole") + GetParam(), text + "\r\n\n");
  EXPECT_EQ(read_model_file(whole).columns.size(), 40u);
}

TEST_P(ModelFileTest, IsNotReplacedByItsStart) {
  const std::string target = file(std::string("model") + GetParam(), "old");
  const auto write_under_a_limit = [&] {
    std::signal(SIGXFSZ, SIG_IGN);  // as the program does
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    expect_error(ErrorCode::io,
                 {"cannot write", "model", "ends after 4096 bytes", "the disk has",
                  "files are limited to 4.0 KiB (ulimit -f)"},
                 [&] { write_model_file(small_model(2000), target); });
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(write_under_a_limit(), testing::ExitedWithCode(0), "");
  EXPECT_EQ(read(target), "old");
  EXPECT_EQ(num_files(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Formats, ModelFileTest, testing::Values(".lp", ".mps"), test::case_name);

}  // namespace
}  // namespace tessera::solver::model_file_test
