// Reports as a reader meets them: made by the program, opened in Chromium.

#include "browser.h"
#include "page_checks.h"
#include "program.h"

namespace tessera::test::report_test {
namespace {

/// Set by someone who wants to look: screenshots and a PDF go there.
const char* shots_folder() { return std::getenv("TESSERA_SHOTS"); }

class Report : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto program = Browser::find();
    if (!program) return;
    std::string name = (std::filesystem::temp_directory_path() / "tessera_report.XXXXXX").string();
    folder_ = mkdtemp(name.data());
    page_ = make("report", "1000");
    browser_ = new Browser(*program);
  }
  static void TearDownTestSuite() {
    delete browser_;
    browser_ = nullptr;
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    if (browser_ == nullptr) GTEST_SKIP() << "no Chromium: apt install chromium";
    browser_->set_media("prefers-color-scheme", "light");
    browser_->set_size(1280, 900, false);
    load_s_ = browser_->open("file://" + page_);
  }
  void TearDown() override {
    if (browser_ == nullptr) return;
    EXPECT_EQ(browser_->evaluate("typeof window.hacked"), "undefined");
    EXPECT_THAT(browser_->problems(), testing::IsEmpty());
    EXPECT_THAT(browser_->requests(), testing::IsEmpty());
  }

  /// Path of a report on a results file with that many rows in its sweep.
  static std::string make(const std::string& name, const std::string& num_rows) {
    const std::string db = (folder_ / (name + ".db")).string();
    const std::string html = (folder_ / (name + ".html")).string();
    const std::string script = std::string(TESSERA_SOURCE_DIR) + "/tests/browser/awkward.lua";
    const Process made = run_program({script, db, num_rows});
    EXPECT_EQ(made.status, 0) << made.err;
    const Process written = run_program({"report", "--results", db, "--out", html});
    EXPECT_EQ(written.status, 0) << written.err;
    EXPECT_THAT(written.out, testing::StartsWith("wrote " + html + ": 3 experiments, "));
    printf("%s  (%.2f s)\n", first_line(written.out).c_str(), written.seconds);
    return html;
  }
  /// Runs a check of page_checks.h, which gives a list of complaints.
  static void expect_none(const std::string& check) {
    const Json found = browser_->evaluate(check);
    ASSERT_TRUE(found.is_array()) << found.dump();
    EXPECT_TRUE(found.empty()) << found.size() << " complaints, such as "
                               << found.dump(1).substr(0, 2000);
  }
  static double number(const std::string& expression) {
    return browser_->evaluate(expression).get<double>();
  }
  static void keep(const std::string& name, const std::string& bytes) {
    if (shots_folder() == nullptr) return;
    std::ofstream(std::string(shots_folder()) + "/" + name, std::ios::binary) << bytes;
  }
  static void keep_screens(const std::string& name) {
    if (shots_folder() == nullptr) return;
    const double height = number("document.documentElement.scrollHeight");
    for (int i = 0; i * 860 < height && i < 9; ++i) {
      browser_->evaluate("scrollTo(0, " + std::to_string(i * 860) + ")");
      keep(name + std::to_string(i) + ".png", browser_->screenshot(false));
    }
  }

  static inline Browser* browser_ = nullptr;
  static inline std::filesystem::path folder_;
  static inline std::string page_;
  double load_s_ = 0;
};

TEST_F(Report, IsSmallAndOpensFast) {
  EXPECT_LE(std::filesystem::file_size(page_), 2'000'000u);
  double best = load_s_;
  for (int i = 0; i < 4; ++i) best = std::min(best, browser_->open("file://" + page_));
  printf("1,000 rows: %ju bytes, open in %.3f s (best of 5)\n",
         static_cast<std::uintmax_t>(std::filesystem::file_size(page_)), best);
  EXPECT_EQ(number("document.querySelectorAll('#e2 tbody tr').length"), 1000);
  keep_screens("light");
}

TEST_F(Report, SortsEveryTableBothWays) {
  EXPECT_GE(number("document.querySelectorAll('th .sort').length"), 18);
  expect_none(kSortsBothWays);
  browser_->evaluate("document.querySelectorAll('#e1 th .sort')[3].focus()");
  browser_->press("Enter");
  EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#e1 th[aria-sort]')[3].ariaSort"),
            "ascending");
  browser_->press("Enter");
  EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#e1 th[aria-sort]')[3].ariaSort"),
            "descending");
}

TEST_F(Report, OpensEveryTooltipByPointerAndKeyboard) {
  const int marks = static_cast<int>(number("document.querySelectorAll('[data-tip]').length"));
  EXPECT_GE(marks, 10);
  for (int i = 0; i < marks; ++i) {
    const Json at = browser_->evaluate(centre_of("[data-tip]", i));
    browser_->move_pointer(at[0], at[1]);
    EXPECT_EQ(browser_->evaluate(kTipText), at[2]) << "pointer on mark " << i;
    browser_->press("Escape");
    EXPECT_EQ(browser_->evaluate(kTipText), "") << "Escape on mark " << i;
    browser_->move_pointer(1, 1);
    browser_->evaluate("document.querySelectorAll('[data-tip]')[" + std::to_string(i) +
                       "].focus()");
    EXPECT_EQ(browser_->evaluate(kTipText), at[2]) << "focus on mark " << i;
  }
  EXPECT_GE(number("document.querySelectorAll('[data-marks] title').length"), 300);
  expect_none(kEveryShapeHasItsTip);
  // With real keys as well: Tab leads to a picture, the arrow to its first value.
  browser_->open("file://" + page_);
  browser_->evaluate("document.querySelector('#theme').focus()");
  for (int i = 0; i < 30 && number(kPictureHasFocus) == 0; ++i) browser_->press("Tab");
  EXPECT_EQ(number(kPictureHasFocus), 1);
  browser_->press("ArrowRight");
  EXPECT_NE(browser_->evaluate(kTipText), "");
}

TEST_F(Report, FitsAPhone) {
  browser_->set_size(390, 844, true);
  browser_->open("file://" + page_);
  expect_none(kNothingSticksOut);
  expect_none(kPicturesRead);
  EXPECT_LE(number("document.documentElement.scrollWidth"), 390);
  keep_screens("phone");
}

TEST_F(Report, ReadsInLightAndDark) {
  EXPECT_EQ(browser_->evaluate(kPageColour), "rgb(255, 255, 255)");
  expect_none(kContrast);
  browser_->set_media("prefers-color-scheme", "dark");
  EXPECT_EQ(browser_->evaluate(kPageColour), "rgb(22, 25, 29)");
  expect_none(kContrast);
  keep_screens("dark");
  browser_->evaluate("document.getElementById('theme').click()");
  EXPECT_EQ(browser_->evaluate(kPageColour), "rgb(255, 255, 255)") << "light by the button";
  expect_none(kContrast);
  browser_->set_media("prefers-color-scheme", "light");
  browser_->evaluate("document.getElementById('theme').click()");
  EXPECT_EQ(browser_->evaluate(kPageColour), "rgb(22, 25, 29)") << "dark by the button";
  expect_none(kContrast);
}

TEST_F(Report, Prints) {
  browser_->set_media("prefers-color-scheme", "dark", "print");
  EXPECT_EQ(browser_->evaluate(kInkOnPaper),
            Json::array({"rgb(255, 255, 255)", "rgb(28, 31, 35)"}));
  browser_->evaluate("dispatchEvent(new Event('beforeprint'))");
  EXPECT_EQ(number("document.querySelectorAll('details:not([open])').length"), 0);
  keep_screens("print");
  browser_->evaluate("dispatchEvent(new Event('afterprint'))");
  EXPECT_GT(number("document.querySelectorAll('details:not([open])').length"), 0);
  browser_->set_media("prefers-color-scheme", "light");
  const std::string pdf = browser_->print_pdf();
  EXPECT_THAT(pdf, testing::StartsWith("%PDF-"));
  int pages = 0;
  for (std::size_t at = 0; (at = pdf.find("/Type /Page\n", at)) != std::string::npos; ++at) ++pages;
  EXPECT_GT(pages, 10) << "1,000 rows do not fit ten pages";
  keep("print.pdf", pdf);
}

TEST_F(Report, FiltersRows) {
  browser_->evaluate(set_filter("llmpq-1 exact"));
  EXPECT_EQ(browser_->evaluate(kShownRows), Json::array({1, "1 of 6 rows"}));
  browser_->evaluate(set_filter(""));
  EXPECT_EQ(browser_->evaluate(kShownRows), Json::array({6, "6 rows"}));
}

TEST_F(Report, ShowsHostileTextAsText) {
  EXPECT_THAT(
      browser_->evaluate("document.querySelector('#e1 .doc').textContent").get<std::string>(),
      testing::HasSubstr("<script>window.hacked=1</script><!--"));
  EXPECT_EQ(number("document.querySelectorAll('img, iframe, object, a:not([href^=\"#\"])').length"),
            0);
  EXPECT_EQ(number("document.scripts.length"), 1);
}

TEST_F(Report, ReadsWithoutItsScript) {
  browser_->call("Emulation.setScriptExecutionDisabled", {{"value", true}});
  browser_->navigate("file://" + page_);
  EXPECT_EQ(browser_->evaluate("document.documentElement.className"), "");
  EXPECT_EQ(number("document.querySelectorAll('#e2 tbody tr').length"), 1000);
  expect_none(kNothingUselessIsShown);
  keep_screens("plain");
  browser_->call("Emulation.setScriptExecutionDisabled", {{"value", false}});
}

TEST_F(Report, AddsRowsThatCameAsData) {
  browser_->open("file://" + make("long", "2300"));
  EXPECT_EQ(browser_->evaluate(kWhenAllRowsAreThere), 2300);
  expect_none(kSortsBothWays);
  EXPECT_EQ(number("document.querySelectorAll('#e2-rows-note, [data-rest]').length"), 0);
  EXPECT_EQ(number("document.querySelectorAll('#e2 tbody .chip').length"), 2300);
  EXPECT_EQ(number("document.querySelectorAll('#e2 tbody details .chip.bad').length"), 26);
}

}  // namespace
}  // namespace tessera::test::report_test
