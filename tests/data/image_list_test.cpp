#include "banyan/data/image_list.hpp"

#include <sys/stat.h>

#include <iterator>
#include <thread>

#include "data/data_test_tools.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

class ImageList : public FolderTest {};

TEST_F(ImageList, SplitsAtTheLastSpace) {
  write_file(path("list"), std::string("a b/c.jpg 3\n\nd.png\t-1\r\ne.png 7   \n"));
  const auto list = read_image_list(path("list"));
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].path, "a b/c.jpg");
  EXPECT_EQ(list[0].label, 3);
  EXPECT_EQ(list[1].path, "d.png");
  EXPECT_EQ(list[1].label, -1);
  EXPECT_EQ(list[2].label, 7);
}

TEST_F(ImageList, BadListsAreNamedWithTheirLine) {
  EXPECT_THAT(bad_input_of([&] { read_image_list(path("none")); }), HasSubstr("cannot open the image list"));
  write_file(path("list"), std::string("a.jpg 3\nb.jpg\n"));
  EXPECT_THAT(bad_input_of([&] { read_image_list(path("list")); }),
              HasSubstr("list:2: expected \"path label\""));
  write_file(path("list"), std::string("a.jpg cat\n"));
  EXPECT_THAT(bad_input_of([&] { read_image_list(path("list")); }),
              HasSubstr("list:1: expected an integer label"));
  write_file(path("list"), std::string("a.jpg 99999999999\n"));
  EXPECT_THAT(bad_input_of([&] { read_image_list(path("list")); }), HasSubstr("99999999999"));
  write_file(path("list"), std::string("\"no end 3\n"));
  EXPECT_THAT(bad_input_of([&] { read_image_list(path("list")); }),
              HasSubstr("list:1: expected \"path\" in quotes"));
  write_file(path("list"), std::string("\n \n"));
  EXPECT_THAT(bad_input_of([&] { read_image_list(path("list")); }), HasSubstr("lists no images"));
}

TEST_F(ImageList, LinesMayHaveSeveralLabels) {
  write_file(path("list"), std::string("a b.jpg 3 -0.5\t1e2 \r\n\"c d.png\"  1 2 +3\n"));
  const auto list = read_image_list(path("list"), 3);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].path, "a b.jpg");
  EXPECT_EQ(list[0].labels, (std::vector<float>{3, -0.5f, 100}));
  EXPECT_EQ(list[1].path, "c d.png");
  EXPECT_EQ(list[1].labels, (std::vector<float>{1, 2, 3}));
  const auto refusal = [&](const std::string& text) {
    write_file(path("list"), text);
    return bad_input_of([&] { read_image_list(path("list"), 2); });
  };
  EXPECT_THAT(refusal("a.jpg 1 2\nb.jpg 3\n"), HasSubstr("list:2: expected a path and 2 labels"));
  EXPECT_THAT(refusal("  1 2\n"), HasSubstr("list:1: expected a path and 2 labels"));
  EXPECT_THAT(refusal("b c.jpg 3\n"), HasSubstr("list:1: expected a number as a label, found \"c.jpg\""));
  EXPECT_THAT(refusal("b.jpg 3 nan\n"), HasSubstr("found \"nan\""));
  EXPECT_THAT(refusal("\"b.jpg 3 4\n"), HasSubstr("list:1: expected \"path\" in quotes and 2 labels"));
  EXPECT_THAT(refusal("\"b.jpg\" 7 3 4\n"), HasSubstr("list:1: expected \"path\" in quotes and 2 labels"));
}

/// Of a branch for PASCAL: `path classes;unknown`.
TEST_F(ImageList, LinesMayNameClasses) {
  write_file(
      path("list"),
      std::string("# image classes;unknown\n\"a \\\"b.png\" 3 1;0\r\nc.png 2\nd.png 1; 3 0\ne.png ;4\n"));
  const ClassList list = read_class_list(path("list"));
  EXPECT_EQ(list.classes, 5);
  ASSERT_EQ(list.images.size(), 4U);
  const std::vector<std::vector<int>> classes = {{3, 1, -1}, {2}, {1, -4, -1}, {-5}};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(list.images[i].classes, classes[i]);
  EXPECT_EQ(list.images[0].path, "a \"b.png");
  EXPECT_EQ(list.images[3].path, "e.png");
  write_file(path("list"), std::string("\"q\\\"x.png\" 3;1\n"));
  EXPECT_EQ(read_class_list(path("list")).classes, 4);
  // Without one, a path may have spaces, and semicolons.
  write_file(path("list"), std::string("a 1;b.jpg 3\n#;1 4\n"));
  const ClassList plain = read_class_list(path("list"));
  EXPECT_EQ(plain.classes, 0);
  EXPECT_EQ(plain.images[0].path, "a 1;b.jpg");
  EXPECT_EQ(plain.images[1].path, "#;1");
  const auto refusal = [&](const std::string& text) {
    write_file(path("list"), text);
    return bad_input_of([&] { read_class_list(path("list")); });
  };
  EXPECT_THAT(refusal("a 1;2\nb c.jpg 3\n"), HasSubstr("list:2: expected classes from 0 to 65535"));
  EXPECT_THAT(refusal("a 1;2;3\n"), HasSubstr("found \"2;3\""));
  EXPECT_THAT(refusal("a 1;65536\n"), HasSubstr("found \"65536\""));
  EXPECT_THAT(refusal("a 1 2;2\n"), HasSubstr("class 2 is before the \";\" and after it"));
  EXPECT_THAT(refusal("a ;\n"), HasSubstr("names no class"));
  EXPECT_THAT(refusal("a 1;0\n\"b c.png 2\n"), HasSubstr("list:2: expected a path and the classes"));
  EXPECT_THAT(refusal("a 1;0\nb.png\n"), HasSubstr("list:2: expected a path and the classes"));
}

/// It can be read once only.
TEST_F(ImageList, MayComeFromAPipe) {
  ASSERT_EQ(::mkfifo(path("list").c_str(), 0600), 0);
  for (const std::string text : {"a b.png 3\n", "a 1;0\n"}) {
    std::thread writer([&] { write_file(path("list"), text); });
    EXPECT_EQ(read_class_list(path("list")).images.size(), 1U);
    writer.join();
  }
}

TEST_F(ImageList, PathsMayBeQuoted) {
  write_file(path("list"), std::string("\"a b.jpg\" 3\n\"say \\\"x\\\".png\"\t-4\nc\"d.png 5\n"));
  const auto images = read_image_list(path("list"));
  ASSERT_EQ(images.size(), 3U);
  EXPECT_EQ(images[0].path, "a b.jpg");
  EXPECT_EQ(images[0].label, 3);
  EXPECT_EQ(images[1].path, "say \"x\".png");
  EXPECT_EQ(images[1].label, -4);
  EXPECT_EQ(images[2].path, "c\"d.png");
}

TEST_F(ImageList, ReadsResizesAndNamesWhatIsMissing) {
  const Image image = gradient_image(3, 6, 8);
  write_file(path("x_one.png"), encode_image(image, "png"));
  write_file(path("x_bad.png"), std::string("nothing"));
  write_file(path("list"), std::string("one.png 5\nbad.png 6\nmissing.png 7\n"));
  ImageListOptions options;
  options.root_folder = path("x_");  // plain concatenation
  const auto source = open_image_list(path("list"), options);
  EXPECT_EQ(source->size(), 3u);
  const auto reader = source->reader();
  Record record;
  read_record(*reader, 0, record);
  EXPECT_EQ(record.label, 5);
  EXPECT_TRUE(record.interleaved);
  EXPECT_EQ(record.image.pixels, image.pixels);
  EXPECT_THAT(
      bad_input_of([&] { read_record(*reader, 1, record); }),
      testing::AllOf(HasSubstr("image 1 "), HasSubstr("x_bad.png"), HasSubstr("expected a JPEG, PNG")));
  EXPECT_THAT(bad_input_of([&] { read_record(*reader, 2, record); }),
              testing::AllOf(HasSubstr("x_missing.png"), HasSubstr("cannot open the file")));
  options.new_height = 3;
  options.new_width = 4;
  options.color = ColorMode::gray;
  read_record(*open_image_list(path("list"), options)->reader(), 0, record);
  EXPECT_EQ(record.channels, 1);
  EXPECT_EQ(record.height, 3);
  EXPECT_EQ(record.width, 4);
}

TEST_F(ImageList, ScaledDecodingHappensOnlyWhenAskedFor) {
  Image stripes{1, 64, 64, {}};
  for (int i = 0; i < 64 * 64; ++i) stripes.pixels.push_back(i / 64 % 4 < 2 ? 250 : 0);
  write_file(path("stripes.jpg"), encode_image(stripes, "jpg"));
  write_file(path("list"), path("stripes.jpg") + " 1\n");
  ImageListOptions options;
  options.new_height = options.new_width = 16;
  options.color = ColorMode::gray;
  for (const bool scaled : {false, true}) {
    options.scaled_decoding = scaled;
    Record record;
    open_image_list(path("list"), options)->reader()->read(0, record);
    ASSERT_EQ(record.height, 16);
    const auto resized = [&] {
      Image image;
      std::ifstream in(path("stripes.jpg"), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      decode_image(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), ColorMode::gray, image,
                   scaled ? LeastSize{16, 16} : LeastSize{});
      EXPECT_EQ(image.height, scaled ? 16 : 64);
      Image small;
      resize_bilinear(image, 16, 16, small);
      return small.pixels;
    };
    EXPECT_EQ(record.image.pixels, resized());
  }
}

}  // namespace
}  // namespace banyan::data
