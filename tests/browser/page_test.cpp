// Pages of answers (--report of plan and ts.report of a served run) as a reader meets them.

#include "browser.h"
#include "page_checks.h"
#include "program.h"

namespace tessera::test::page_test {
namespace {

class Page : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    const auto program = Browser::find();
    if (!program) return;
    std::string name = (std::filesystem::temp_directory_path() / "tessera_page.XXXXXX").string();
    folder_ = mkdtemp(name.data());
    expect_made({"plan", "--model", "opt-13b", "--cluster", "3xT4-16G+1xV100-32G", "--batch-size",
                 "8", "--report", path("plan")});
    expect_made(
        {"plan", "--model", "llama-3.1-8b", "--cluster", "2x(2xL4)", "--report", path("stream")});
    expect_made({"-e",
                 R"lua(local ts = require "tessera"
                   ts.report(ts.serve(ts.deployment { model = "opt-13b", cluster = "1xA100-80G" }, {
                     rate_per_s = 2, num_requests = 1300, prompt_tokens = 64, output_tokens = 8 }),
                     ")lua" +
                     path("served") + "\")"});
    expect_made({"-e",
                 R"lua(local ts = require "tessera"
                   ts.report(assert(ts.plan_fleet { cluster = "3x(2xL4)", gap = 0.02, models = { {
                     name = "chat", model = "llama-3.2-1b", traffic = { rate_per_s = 12,
                     prompt_tokens = 200, output_tokens = 30 }, num_requests = 100,
                     slo = { ttft_s = { p99 = 1 }, tpot_s = { p99 = 0.05 } }, bitwidths = { 16 } } }
                     }), ")lua" +
                     path("fleet") + "\")"});
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
    browser_->set_size(1600, 1000, false);
    browser_->open("file://" + path(GetParam()));
  }
  void TearDown() override {
    if (browser_ == nullptr) return;
    EXPECT_THAT(browser_->problems(), testing::IsEmpty());
    EXPECT_THAT(browser_->requests(), testing::IsEmpty()) << "it stands alone";
  }

  static std::string path(const std::string& name) { return (folder_ / (name + ".html")).string(); }
  static void expect_made(const std::vector<std::string>& words) {
    const Process made = run_program(words);
    EXPECT_EQ(made.status, 0) << made.err;
  }
  static void expect_none(const std::string& check) {
    const Json found = browser_->evaluate(check);
    ASSERT_TRUE(found.is_array()) << found.dump();
    EXPECT_TRUE(found.empty()) << found.dump(1).substr(0, 2000);
  }
  static double number(const std::string& expression) {
    return browser_->evaluate(expression).get<double>();
  }

  static inline Browser* browser_ = nullptr;
  static inline std::filesystem::path folder_;
};

TEST_P(Page, FitsBothWidths) {
  for (const int width : {400, 1600}) {
    browser_->set_size(width, 900, width == 400);
    browser_->open("file://" + path(GetParam()));
    expect_none(kNothingSticksOut);
    expect_none(kPicturesRead);
    EXPECT_LE(number("document.documentElement.scrollWidth"), width);
  }
}

TEST_P(Page, ReadsInLightAndDark) {
  expect_none(kContrast);
  browser_->set_media("prefers-color-scheme", "dark");
  EXPECT_EQ(browser_->evaluate(kPageColour), "rgb(22, 25, 29)");
  expect_none(kContrast);
}

TEST_P(Page, AnswersTheKeyboard) { expect_none(kEveryShapeHasItsTip); }

TEST_P(Page, ReadsWithoutItsScript) {
  browser_->call("Emulation.setScriptExecutionDisabled", {{"value", true}});
  browser_->navigate("file://" + path(GetParam()));
  EXPECT_GT(number("document.querySelectorAll('tbody tr').length"), 0);
  EXPECT_GT(number("document.querySelectorAll('svg').length"), 0);
  expect_none(kNothingUselessIsShown);
  browser_->call("Emulation.setScriptExecutionDisabled", {{"value", false}});
}

INSTANTIATE_TEST_SUITE_P(Answers, Page, testing::Values("plan", "stream", "served", "fleet"),
                         [](const auto& page) { return std::string(page.param); });

class PagedTable : public Page {};

TEST_P(PagedTable, ShowsAHundredRowsAtATimeAndSearchesAll) {
  constexpr auto kShown = R"js((async () => {
    for (let i = 0; i < 100 && document.getElementById('requests-note'); i++) {
      await new Promise((done) => setTimeout(done, 50));
    }
    const rows = [...document.querySelectorAll('#requests tbody tr')];
    const shown = rows.filter((row) => row.offsetParent !== null);
    return [rows.length, shown.length, shown.length ? shown[0].cells[0].textContent : '',
      document.querySelector('[data-pager] span').textContent];
  })())js";
  const auto press = [](int button) {
    browser_->evaluate("document.querySelectorAll('[data-pager] button')[" +
                       std::to_string(button) + "].click()");
  };
  EXPECT_EQ(browser_->evaluate(kShown), Json::array({1300, 100, "0", "page 1 of 13"}));
  press(1);
  EXPECT_EQ(browser_->evaluate(kShown), Json::array({1300, 100, "100", "page 2 of 13"}));
  browser_->evaluate(
      "(() => { const input = document.querySelector('[data-filter=requests]'); input.value = "
      "'1299'; input.dispatchEvent(new Event('input')); })()");
  EXPECT_EQ(browser_->evaluate(kShown), Json::array({1300, 1, "1,299", "page 1 of 1"}))
      << "a row that no page showed";
  EXPECT_EQ(number("document.querySelector('[data-pager]').hidden ? 1 : 0"), 1);
}

INSTANTIATE_TEST_SUITE_P(Served, PagedTable, testing::Values("served"));

}  // namespace
}  // namespace tessera::test::page_test
