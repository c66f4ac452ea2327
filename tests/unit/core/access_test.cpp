// What a restricted process may touch. Restrictions last as long as the process, so each case runs
// in one of its own.

#include "tessera/core/access.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tessera/core/error.h"
#include "tessera/core/files.h"

namespace tessera::access_test {
namespace fs = std::filesystem;
namespace {

class Access : public testing::Test {
 protected:
  Access() {
    std::string name = (fs::temp_directory_path() / "tessera_access.XXXXXX").string();
    folder_ = fs::canonical(mkdtemp(name.data()));
    fs::create_directories(folder_ / "out");
    fs::create_directories(folder_ / "in" / ".keys");
    std::ofstream(folder_ / "in" / "data.txt") << "data";
    std::ofstream(folder_ / "in" / ".keys" / "id") << "secret";
    std::ofstream(folder_ / "elsewhere.txt") << "elsewhere";
  }
  ~Access() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  void restrict_here() const { restrict_access({at("out"), {at("in")}}); }

  fs::path folder_;
};

bool refuses(const std::function<void()>& act) {
  try {
    act();
    return false;
  } catch (const Error& error) {
    return std::string(error.what()).rfind("the sandbox", 0) == 0;
  }
}

// Ends the process of the case: 0 where `right`.
[[noreturn]] void finish(bool right) { std::_Exit(right ? 0 : 1); }

TEST_F(Access, IsFreeUntilRestricted) {
  EXPECT_FALSE(access_is_restricted());
  EXPECT_EQ(write_root(), "");
  EXPECT_NO_THROW(check_may_write("/etc/passwd"));
  EXPECT_NO_THROW(check_may_read("/etc/passwd"));
  EXPECT_NO_THROW(check_may_start_processes("workers"));
}

TEST_F(Access, WritesBeneathOneFolderOnly) {
  fs::create_symlink(at("elsewhere.txt"), at("out/link"));
  fs::create_symlink(at("new.txt"), at("out/dangling"));
  fs::create_symlink(at("in"), at("out/folder"));
  EXPECT_EXIT(
      {
        restrict_here();
        write_file(at("out/new.txt"), "new");
        bool right = write_root() == at("out") && access_is_restricted();
        for (const char* name : {"elsewhere.txt", "out/../new.txt", "out/link", "out/dangling",
                                 "out/folder/new.txt", "out2", "in/new.txt"}) {
          right = right && refuses([&] { write_file(at(name), "escaped"); });
        }
        right = right && refuses([] { check_may_write("/proc/self/root/tmp/new.txt"); });
        right = right && refuses([] { check_may_start_processes("workers"); });
        finish(right);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_TRUE(fs::exists(at("out/new.txt")));
  EXPECT_FALSE(fs::exists(at("new.txt")));
  EXPECT_EQ(read_file(at("elsewhere.txt")), "elsewhere");
}

TEST_F(Access, RemovesTheLinkAndNotItsTarget) {
  fs::create_symlink(at("elsewhere.txt"), at("out/link"));
  EXPECT_EXIT(
      {
        restrict_here();
        check_may_replace(at("out/link"));
        check_may_replace(at("out/folder/../file"));
        bool right = refuses([&] { check_may_replace(at("out")); });
        right = right && refuses([&] { check_may_replace(at("out/..")); });
        right = right && refuses([&] { check_may_replace(at("in/data.txt")); });
        finish(right);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Access, ReadsBeneathItsRootsAndNoHiddenFiles) {
  EXPECT_EXIT(
      {
        restrict_here();
        bool right = read_file(at("in/data.txt")) == "data";
        right = right && read_file(at("out/../in/data.txt")) == "data";
        right = right && refuses([&] { read_file(at("in/.keys/id")); });
        right = right && refuses([&] { read_file(at("elsewhere.txt")); });
        right = right && refuses([] { read_file("/proc/self/environ"); });
        finish(right);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Access, CannotBeWidened) {
  EXPECT_EXIT(
      {
        restrict_here();
        try {
          restrict_access({"/", {"/"}});
          finish(false);
        } catch (const Error& error) {
          finish(error.code() == ErrorCode::internal);
        }
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Access, NamesAFolderThatIsNotThere) {
  EXPECT_THROW(restrict_access({at("nowhere"), {}}), Error);
  EXPECT_FALSE(access_is_restricted());
}

}  // namespace
}  // namespace tessera::access_test
