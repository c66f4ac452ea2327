#include "browser.h"
#include "program.h"

namespace tessera::test {
namespace {
TEST(Shots, All) {
  Browser b(*Browser::find());
  b.set_size(1280, 900, false);
  const std::string url = std::string("file://") + std::getenv("HTML");
  const std::string out = std::getenv("OUT");
  const auto save = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(out + "/" + name, std::ios::binary) << bytes;
  };
  for (const std::string theme : {"light", "dark"}) {
    b.set_media("prefers-color-scheme", theme);
    printf("load %.3f s\n", b.open(url));
    printf("%s\n", b.evaluate("JSON.stringify(performance.getEntriesByType('navigation')[0])").dump().c_str());
    for (int i = 0; i < 5; ++i) {
      b.evaluate("scrollTo(0, " + std::to_string(i * 860) + ")");
      save(theme + std::to_string(i) + ".png", b.screenshot(false));
    }
  }
  b.set_media("prefers-color-scheme", "light");
  save("print.pdf", b.print_pdf());
  b.set_size(390, 844, true);
  b.open(url);
  save("phone.png", b.screenshot(true));
  for (const auto& p : b.problems()) printf("problem %s\n", p.c_str());
  for (const auto& p : b.requests()) printf("request %s\n", p.c_str());
  printf("%s\n", b.evaluate("[document.documentElement.scrollWidth, innerWidth, window.hacked]")
                     .dump()
                     .c_str());
}
}  // namespace
}  // namespace tessera::test
