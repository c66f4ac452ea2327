// What goes by a name: cards in their order, makers, and names that there are not.
#include "tessera/core/registry.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera::registry_test {
namespace {

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};

struct Square final : Shape {
  explicit Square(double side) : side_(side) {}
  double area() const override { return side_ * side_; }
  double side_;
};

struct Circle final : Shape {
  explicit Circle(double radius) : radius_(radius) {}
  double area() const override { return 3 * radius_ * radius_; }
  double radius_;
};

using Shapes = Registry<Shape, double>;

template <class S>
std::unique_ptr<Shape> make(double size) {
  return std::make_unique<S>(size);
}

const Shapes& shapes() {
  static const Shapes all("shape", {{{"square", "Four sides", ""}, make<Square>},
                                    {{"circle", "None", ""}, make<Circle>}});
  return all;
}

TEST(Registry, KeepsCardsInTheirOrder) {
  ASSERT_EQ(shapes().cards().size(), 2U);
  EXPECT_EQ(shapes().cards()[0].name, "square");
  EXPECT_EQ(shapes().cards()[1].doc, "None");
  EXPECT_TRUE(shapes().has("circle"));
  EXPECT_FALSE(shapes().has("Circle"));
  EXPECT_FALSE(shapes().has(""));
}

TEST(Registry, MakesByName) {
  EXPECT_EQ(shapes().make("square", 2)->area(), 4);
  EXPECT_EQ(shapes().make("circle", 2)->area(), 12);
}

TEST(Registry, NamesTheNearest) {
  test::expect_error(ErrorCode::not_found, {"there is no shape 'sqare'", "did you mean 'square'"},
                     [] { shapes().make("sqare", 1); });
  test::expect_error(ErrorCode::not_found, {"there is no shape 'x'"},
                     [] { Shapes("shape", {}).make("x", 1); });
}

// What a maker takes is handed on, not copied.
TEST(Registry, HandsArgumentsOn) {
  struct Box {
    std::unique_ptr<int> held;
  };
  using Boxes = Registry<Box, std::unique_ptr<int>>;
  const Boxes boxes("box", {{{"plain", "Holds a number", ""}, [](std::unique_ptr<int> number) {
                               return std::make_unique<Box>(Box{std::move(number)});
                             }}});
  EXPECT_EQ(*boxes.make("plain", std::make_unique<int>(7))->held, 7);
}

}  // namespace
}  // namespace tessera::registry_test
