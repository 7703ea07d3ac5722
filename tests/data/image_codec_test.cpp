#include "banyan/data/image_codec.hpp"

#include <png.h>
#include <turbojpeg.h>
#include <webp/encode.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "data/data_test_tools.hpp"

namespace banyan::data {
namespace {

Image decode(const std::vector<std::uint8_t>& bytes, ColorMode mode = ColorMode::as_stored) {
  Image image;
  decode_image(bytes.data(), bytes.size(), mode, image);
  return image;
}

int largest_difference(const Image& a, const Image& b) {
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  int most = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i)
    most = std::max(most, std::abs(a.pixels[i] - b.pixels[i]));
  return most;
}

TEST(ImageCodec, PngRoundTripIsExact) {
  for (const int channels : {1, 3}) {
    const Image image = gradient_image(channels, 7, 11);
    const Image back = decode(encode_image(image, "PNG"));
    EXPECT_EQ(back.channels, channels);
    EXPECT_EQ(back.height, 7);
    EXPECT_EQ(back.width, 11);
    EXPECT_EQ(back.pixels, image.pixels);
  }
}

TEST(ImageCodec, JpegRoundTripIsClose) {
  for (const int channels : {1, 3}) {
    const Image image = gradient_image(channels, 17, 21);
    const Image back = decode(encode_image(image, "jpg"));
    EXPECT_EQ(back.channels, channels);
    EXPECT_EQ(back.height, 17);
    EXPECT_EQ(back.width, 21);
    // A smooth image at quality 95 with halved chroma: a few steps.
    EXPECT_LE(largest_difference(back, image), 6);
  }
}

TEST(ImageCodec, JpegsAreDecodedNoSmallerThanTheLeastSize) {
  Image whole{3, 70, 81, {}};  // smooth
  for (int y = 0; y < 70; ++y)
    for (int x = 0; x < 81; ++x)
      for (int c = 0; c < 3; ++c) whole.pixels.push_back(static_cast<std::uint8_t>(20 + x + y + 20 * c));
  const auto file = encode_image(whole, "jpg");
  const auto size_for = [&](LeastSize least) {
    Image image;
    decode_image(file.data(), file.size(), ColorMode::bgr, image, least);
    EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(3 * image.height * image.width));
    return std::pair(image.height, image.width);
  };
  EXPECT_EQ(size_for({}), std::pair(70, 81));
  EXPECT_EQ(size_for({36, 10}), std::pair(70, 81));
  EXPECT_EQ(size_for({35, 40}), std::pair(35, 41));
  EXPECT_EQ(size_for({10, 20}), std::pair(18, 21));
  EXPECT_EQ(size_for({1, 1}), std::pair(9, 11));
  // A smooth image looks the same at every size: the mean of each 2 x 2 block, within a step or two.
  Image half;
  decode_image(file.data(), file.size(), ColorMode::bgr, half, {35, 40});
  for (int y = 0; y < 34; ++y)
    for (int x = 0; x < 40; ++x)
      for (int c = 0; c < 3; ++c)
        EXPECT_NEAR(half.pixels[(y * 41 + x) * 3 + c], whole.pixels[(2 * y * 81 + 2 * x) * 3 + c] + 1, 6);
}

TEST(ImageCodec, ColourIsBlueGreenRed) {
  Image red{3, 8, 8, {}};
  for (int i = 0; i < 64; ++i) red.pixels.insert(red.pixels.end(), {0, 0, 255});
  // The bytes of a JPEG made by the library from pixels that are red in R, G, B order.
  std::vector<std::uint8_t> rgb;
  for (int i = 0; i < 64; ++i) rgb.insert(rgb.end(), {255, 0, 0});
  tjhandle handle = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  ASSERT_EQ(tjCompress2(handle, rgb.data(), 8, 0, 8, TJPF_RGB, &out, &size, TJSAMP_444, 100, 0), 0);
  const Image back = decode({out, out + size});
  tjFree(out);
  tjDestroy(handle);
  EXPECT_LE(largest_difference(back, red), 3);  // colour conversion rounds twice
}

TEST(ImageCodec, ForcedColoursOfBothFormats) {
  for (const char* type : {"png", "jpg"}) {
    const Image gray = gradient_image(1, 8, 8);
    const Image as_bgr = decode(encode_image(gray, type), ColorMode::bgr);
    ASSERT_EQ(as_bgr.channels, 3);
    for (std::size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(as_bgr.pixels[3 * i], as_bgr.pixels[3 * i + 2]);
      EXPECT_NEAR(as_bgr.pixels[3 * i], gray.pixels[i], 3);
    }
    const Image color = gradient_image(3, 8, 8);
    const Image as_gray = decode(encode_image(color, type), ColorMode::gray);
    ASSERT_EQ(as_gray.channels, 1);
    for (std::size_t i = 0; i < 64; ++i) {
      const double luma =
          0.114 * color.pixels[3 * i] + 0.587 * color.pixels[3 * i + 1] + 0.299 * color.pixels[3 * i + 2];
      EXPECT_NEAR(as_gray.pixels[i], luma, std::strcmp(type, "png") == 0 ? 0.51 : 4) << type;
    }
  }
}

TEST(ImageCodec, PaletteAlphaAndSixteenBitPng) {
  // Written with libpng's own simplified interface: R, G, B, A and 16-bit linear.
  const std::uint8_t rgba[] = {10, 20, 30, 255, 40, 50, 60, 255};
  png_image description;
  std::memset(&description, 0, sizeof description);
  description.version = PNG_IMAGE_VERSION;
  description.width = 2;
  description.height = 1;
  description.format = PNG_FORMAT_RGBA;
  std::vector<std::uint8_t> bytes(4096);
  png_alloc_size_t size = bytes.size();
  ASSERT_TRUE(png_image_write_to_memory(&description, bytes.data(), &size, 0, rgba, 0, nullptr));
  const Image image = decode({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.pixels, (std::vector<std::uint8_t>{30, 20, 10, 60, 50, 40}));

  const std::uint8_t indices[] = {1, 0};
  const std::uint8_t colors[] = {1, 2, 3, 4, 5, 6};
  description.format = PNG_FORMAT_RGB_COLORMAP;
  description.colormap_entries = 2;
  size = bytes.size();
  ASSERT_TRUE(png_image_write_to_memory(&description, bytes.data(), &size, 0, indices, 0, colors));
  EXPECT_EQ(decode({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}).pixels,
            (std::vector<std::uint8_t>{6, 5, 4, 3, 2, 1}));
}

TEST(ImageCodec, TruncatedAndBrokenImagesAreErrors) {
  const Image image = gradient_image(3, 40, 40);
  for (const char* type : {"jpg", "png"}) {
    const std::vector<std::uint8_t> whole = encode_image(image, type);
    for (const double part : {0.02, 0.3, 0.6, 0.9}) {
      const auto length = static_cast<std::ptrdiff_t>(part * static_cast<double>(whole.size()));
      const std::vector<std::uint8_t> cut(whole.begin(), whole.begin() + std::max<std::ptrdiff_t>(length, 9));
      EXPECT_FALSE(bad_input_of([&] { decode(cut); }).empty()) << type << " " << part;
    }
  }
  std::vector<std::uint8_t> flipped = encode_image(image, "png");
  // A broken image does not affect the next one.
  EXPECT_EQ(decode(encode_image(image, "jpg")).height, 40);
  flipped[flipped.size() / 2] ^= 0x55;  // its checksum detects it
  EXPECT_THAT(bad_input_of([&] { decode(flipped); }), testing::HasSubstr("damaged PNG"));
}

std::vector<std::uint8_t> lossless_webp(const Image& image) {
  std::uint8_t* written = nullptr;
  const std::size_t size =
      WebPEncodeLosslessBGR(image.pixels.data(), image.width, image.height, 3 * image.width, &written);
  std::vector<std::uint8_t> bytes(written, written + size);
  WebPFree(written);
  return bytes;
}

/// 24 bits a pixel, rows from the bottom up, each filled to 4 bytes.
std::vector<std::uint8_t> bmp(const Image& image) {
  const int pitch = (3 * image.width + 3) / 4 * 4;
  std::vector<std::uint8_t> bytes{'B', 'M'};
  const auto number = [&](int value, int width) {
    for (int i = 0; i < width; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  };
  for (const int value : {54 + pitch * image.height, 0, 54, 40, image.width, image.height}) number(value, 4);
  number(1, 2);
  number(24, 2);
  for (const int value : {0, pitch * image.height, 2835, 2835, 0, 0}) number(value, 4);
  for (int y = image.height - 1; y >= 0; --y)
    for (int i = 0; i < pitch; ++i)
      bytes.push_back(i < 3 * image.width ? image.pixels[3 * y * image.width + i] : 0);
  return bytes;
}

TEST(ImageCodec, WebPAndBmpAreRead) {
  const Image image = gradient_image(3, 7, 11);
  for (const auto& file : {lossless_webp(image), bmp(image)}) {
    const Image back = decode(file), gray = decode(file, ColorMode::gray);
    EXPECT_EQ(back.height, 7);
    EXPECT_EQ(back.width, 11);
    EXPECT_EQ(back.pixels, image.pixels);
    EXPECT_EQ(gray.pixels, decode(encode_image(image, "png"), ColorMode::gray).pixels);
    const std::vector<std::uint8_t> half(file.begin(), file.begin() + file.size() / 2);
    EXPECT_THAT(bad_input_of([&] { decode(half); }), testing::HasSubstr("damaged"));
  }
  EXPECT_THAT(bad_input_of([] { decode({'B', 'M', 1}); }), testing::HasSubstr("damaged BMP"));
}

TEST(ImageCodec, AFewBytesAreNoLargeJpeg) {
  Image image{1, 600, 800, {}};
  image.pixels.assign(600 * 800, 77);
  std::vector<std::uint8_t> file = encode_image(image, "jpg");
  EXPECT_EQ(decode(file).pixels, image.pixels);
  const std::vector<std::uint8_t> start_of_frame{0xff, 0xc0};
  const auto frame = std::ranges::search(file, start_of_frame).begin();
  ASSERT_NE(frame, file.end());
  frame[5] = frame[7] = 0x3f;  // the upper bytes of height and width: 16216 x 16160
  EXPECT_THAT(bad_input_of([&] { decode(file); }), testing::HasSubstr("impossible size"));
}

TEST(ImageCodec, OtherBytesAreNoImage) {
  EXPECT_THAT(bad_input_of([] { decode({}); }), testing::HasSubstr("no bytes"));
  EXPECT_THAT(bad_input_of([] {
                decode({'G', 'I', 'F', '8', '9', 'a', 0, 0, 0});
              }),
              testing::HasSubstr("expected a JPEG, PNG, WebP or BMP image"));
  EXPECT_THAT(bad_input_of([] { encode_image(gradient_image(1, 2, 2), "gif"); }), testing::HasSubstr("gif"));
}

TEST(ImageCodec, BytesBetweenMarkersAreHarmless) {
  std::vector<std::uint8_t> bytes = encode_image(gradient_image(3, 16, 16), "jpg");
  bytes.insert(bytes.begin() + 20,
               {0, 0, 0});  // after the JFIF segment (2 + 18 bytes), before the next marker
  EXPECT_EQ(decode(bytes).height, 16);
}

TEST(ImageCodec, ResizeKnownAnswers) {
  const Image row{1, 1, 4, {0, 100, 200, 100}};
  Image out;
  resize_bilinear(row, 1, 2, out);
  EXPECT_EQ(out.pixels, (std::vector<std::uint8_t>{50, 150}));  // halfway between two centres
  resize_bilinear(Image{1, 1, 2, {0, 100}}, 1, 4, out);
  EXPECT_EQ(out.pixels, (std::vector<std::uint8_t>{0, 25, 75, 100}));
  const Image color = gradient_image(3, 5, 6);
  resize_bilinear(color, 5, 6, out);
  EXPECT_EQ(out.pixels, color.pixels);
  resize_bilinear(Image{1, 2, 2, {0, 40, 80, 120}}, 1, 1, out);
  EXPECT_EQ(out.pixels, (std::vector<std::uint8_t>{60}));
}

/// What convert_imageset --resize_height --resize_width of BVLC Caffe 1.0 with OpenCV 4.5 stores.
TEST(ImageCodec, ResizesToTheBytesOfCaffe) {
  Image image{3, 3, 4, {}};
  for (int i = 0; i < 36; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * i * 37 + i * 91 + 13));
  Image out;
  resize_bilinear(image, 2, 3, out);
  EXPECT_EQ(out.pixels, (std::vector<std::uint8_t>{38, 126, 96, 115, 190, 115, 182, 83, 123, 150, 66, 217,
                                                   115, 178, 187, 70, 119, 147}));
  resize_bilinear(image, 5, 7, out);
  EXPECT_EQ(out.pixels,
            (std::vector<std::uint8_t>{
                13,  141, 87,  46,  162, 96,  100, 197, 111, 103, 180, 75,  109, 149, 43,  193, 66,  87,
                245, 15,  115, 21,  94,  88,  69,  131, 113, 147, 189, 151, 122, 196, 139, 94,  188, 123,
                142, 130, 133, 173, 93,  139, 33,  25,  91,  104, 84,  137, 217, 177, 212, 151, 220, 235,
                71,  248, 244, 67,  225, 201, 65,  211, 175, 141, 51,  189, 124, 77,  203, 97,  119, 225,
                122, 186, 196, 143, 239, 164, 88,  164, 157, 53,  117, 153, 213, 69,  255, 138, 73,  247,
                18,  80,  234, 103, 164, 171, 192, 233, 111, 101, 123, 128, 45,  55,  139}));
}

}  // namespace
}  // namespace banyan::data
