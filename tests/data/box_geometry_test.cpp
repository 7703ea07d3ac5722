#include "banyan/data/box_geometry.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace banyan::data {
namespace {

void expect_box(const Box& box, const Box& expected) {
  EXPECT_NEAR(box.x1, expected.x1, 1e-12);
  EXPECT_NEAR(box.y1, expected.y1, 1e-12);
  EXPECT_NEAR(box.x2, expected.x2, 1e-12);
  EXPECT_NEAR(box.y2, expected.y2, 1e-12);
}

TEST(BoxGeometry, AViewBecomesTheUnitSquare) {
  const Box view{0.2, 0.1, 0.6, 0.9};
  expect_box(seen_through(view, view), {0, 0, 1, 1});
  expect_box(seen_through(view, {0.3, 0.5, 0.4, 0.7}), {0.25, 0.5, 0.5, 0.75});
  // An image placed in the middle of one twice as large.
  expect_box(seen_through({-0.5, -0.5, 1.5, 1.5}, {0, 0, 1, 0.5}), {0.25, 0.25, 0.75, 0.5});
  expect_box(mirrored({0.1, 0.2, 0.4, 0.5}), {0.6, 0.2, 0.9, 0.5});
  expect_box(mirrored(mirrored(view)), view);
}

TEST(BoxGeometry, Coverage) {
  const Box a{0, 0, 0.4, 0.5}, b{0.2, 0, 1, 1};
  EXPECT_NEAR(coverage(a, b), 0.5, 1e-12);
  EXPECT_NEAR(coverage(b, a), 0.125, 1e-12);
  EXPECT_EQ(coverage({0.3, 0.3, 0.3, 0.3}, b), 0);
  EXPECT_EQ(coverage(a, {0.5, 0.5, 1, 1}), 0);
}

TEST(BoxGeometry, ObjectsThatAreNotSeenAreDropped) {
  const Box view{0.5, 0.5, 1, 1};
  const std::vector<ObjectBox> all = {{{0, 0, 0.5, 0.5}, 1, 0, false},       // touches it
                                      {{0.3, 0.3, 0.6, 0.6}, 2, 0, false},   // 1/9 inside, the centre is not
                                      {{0.4, 0.4, 0.8, 0.8}, 3, 0, true},    // 9/16 inside
                                      {{0.9, 0.9, 0.8, 0.8}, 4, 0, false}};  // no area
  const auto labels = [&](const caffe::EmitConstraint* constraint) {
    std::vector<ObjectBox> objects = all;
    look_through(view, constraint, objects);
    std::vector<int> found;
    for (const ObjectBox& object : objects) found.push_back(object.label);
    return found;
  };
  EXPECT_EQ(labels(nullptr), (std::vector<int>{2, 3}));
  caffe::EmitConstraint constraint;
  EXPECT_EQ(labels(&constraint), (std::vector<int>{3}));  // CENTER
  constraint.set_emit_type(caffe::EmitConstraint::MIN_OVERLAP);
  constraint.set_emit_overlap(0.1f);
  EXPECT_EQ(labels(&constraint), (std::vector<int>{2, 3}));
  constraint.set_emit_overlap(0.2f);
  EXPECT_EQ(labels(&constraint), (std::vector<int>{3}));
  constraint.set_emit_overlap(0.6f);
  EXPECT_TRUE(labels(&constraint).empty());

  std::vector<ObjectBox> objects = all;
  look_through(view, nullptr, objects);
  expect_box(objects[0].box, {0, 0, 0.2, 0.2});
  expect_box(objects[1].box, {0, 0, 0.6, 0.6});
  EXPECT_TRUE(objects[1].difficult);
}

TEST(BoxGeometry, SamplesHaveTheAreaAndTheShapeThatWereDrawn) {
  caffe::Sampler sampler;
  expect_box(sample_box(sampler, {0.3, 0.3, 0.3, 0.3}), {0, 0, 1, 1});
  sampler.set_min_scale(0.25);
  sampler.set_max_scale(0.75);
  sampler.set_min_aspect_ratio(0.5);
  sampler.set_max_aspect_ratio(2.5);
  // Scale 0.5, ratio 1.5.
  const double width = 0.5 * std::sqrt(1.5), height = 0.5 / std::sqrt(1.5);
  expect_box(sample_box(sampler, {0.5, 0.5, 0, 1}), {0, 1 - height, width, 1});
  expect_box(sample_box(sampler, {0.5, 0.5, 0.5, 0.5}),
             {(1 - width) / 2, (1 - height) / 2, (1 + width) / 2, (1 + height) / 2});
  // A ratio for which there is no room: as wide as the image, with the area of the scale.
  sampler.set_max_aspect_ratio(1000);
  const Box wide = sample_box(sampler, {1, 1, 0.7, 0});
  expect_box(wide, {0, 0, 1, 0.75 * 0.75});
}

TEST(BoxGeometry, ConstraintsAreOfOneObject) {
  const Box sample{0, 0, 0.5, 0.5};
  const std::vector<ObjectBox> objects = {{{0.25, 0, 0.75, 0.5}, 1, 0, false},  // overlap 1/3, coverage 1/2
                                          {{0, 0, 0.1, 0.1}, 1, 0, false}};     // overlap 1/25, all of it
  caffe::SampleConstraint c;
  EXPECT_TRUE(is_accepted(c, sample, {}));
  c.set_min_jaccard_overlap(0.33f);
  EXPECT_TRUE(is_accepted(c, sample, objects));
  EXPECT_FALSE(is_accepted(c, sample, {}));
  c.set_min_object_coverage(0.9f);  // no object has both
  EXPECT_FALSE(is_accepted(c, sample, objects));
  c.clear_min_jaccard_overlap();
  EXPECT_TRUE(is_accepted(c, sample, objects));
  c.Clear();
  c.set_max_jaccard_overlap(0.03f);
  EXPECT_FALSE(is_accepted(c, sample, objects));
  c.set_max_jaccard_overlap(0.05f);
  EXPECT_TRUE(is_accepted(c, sample, objects));
  c.Clear();
  c.set_min_sample_coverage(0.4f);
  c.set_max_sample_coverage(0.6f);
  EXPECT_TRUE(is_accepted(c, sample, objects));
  EXPECT_FALSE(is_accepted(c, sample, {objects[1]}));
}

TEST(BoxGeometry, PartsInPixelsAreInsideAndNeverEmpty) {
  EXPECT_EQ(pixels_of({0, 0, 1, 1}, 5, 7), (PixelBox{0, 0, 5, 7}));
  EXPECT_EQ(pixels_of({0.5, 0.25, 1, 0.5}, 8, 6), (PixelBox{2, 3, 2, 3}));
  EXPECT_EQ(pixels_of({0.99, 0.99, 1, 1}, 4, 4), (PixelBox{3, 3, 1, 1}));
  expect_box(fractions_of({2, 3, 2, 3}, 8, 6), {0.5, 0.25, 1, 0.5});
  expect_box(fractions_of({-4, -3, 16, 12}, 8, 6), {-0.5, -0.5, 1.5, 1.5});
}

TEST(BoxGeometry, ResizesKeepTheAspectOrNot) {
  caffe::ResizeParameter settings;
  settings.set_height(300);
  settings.set_width(200);
  const auto expect = [&](int height, int width, int new_height, int new_width, const PixelBox& inner) {
    const Resized found = resized(settings, height, width);
    EXPECT_EQ(found.height, new_height);
    EXPECT_EQ(found.width, new_width);
    EXPECT_EQ(found.inner, inner) << height << " x " << width;
  };
  expect(40, 80, 300, 200, {0, 0, 300, 200});
  settings.set_resize_mode(caffe::ResizeParameter::FIT_SMALL_SIZE);
  expect(40, 80, 300, 600, {0, 0, 300, 600});
  expect(90, 30, 600, 200, {0, 0, 600, 200});
  settings.set_resize_mode(caffe::ResizeParameter::FIT_LARGE_SIZE_AND_PAD);
  expect(40, 80, 300, 200, {100, 0, 100, 200});
  expect(90, 30, 300, 200, {0, 50, 300, 100});
  expect(60, 40, 300, 200, {0, 0, 300, 200});
  expect(1, 1000, 300, 200, {149, 0, 1, 200});
}

}  // namespace
}  // namespace banyan::data
