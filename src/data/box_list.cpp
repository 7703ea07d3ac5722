#include "banyan/data/box_list.hpp"

#include <algorithm>

#include "banyan/io/atomic_file.hpp"
#include "data/list_words.hpp"
#include "data/open_once.hpp"

namespace banyan::data {
namespace {

constexpr std::size_t kLargestBoxFile = std::size_t{1} << 32;

ListedBox read_box(ListWords& words, bool difficult) {
  ListedBox listed;
  listed.label = words.number<int>("the box's label");
  if (listed.label < 1) words.fail("a positive label", cat(listed.label));
  listed.ignored = words.number<int>("whether the box is ignored") != 0;
  listed.difficult = difficult && words.number<int>("whether the box is difficult") != 0;
  listed.box = read_listed_box(words);
  return listed;
}

BoxedImage read_boxed_image(ListWords& words, bool difficult) {
  BoxedImage image;
  image.path = read_listed_path(words);
  const ListedSize size = read_listed_size(words);
  image.height = size.height;
  image.width = size.width;
  if (image.height < 1 || image.width < 1)
    words.fail("a positive height and width", cat(image.height, " x ", image.width));
  for (auto boxes = words.number<std::uint32_t>("the number of boxes"); boxes > 0; --boxes)
    image.boxes.push_back(read_box(words, difficult));
  for (auto regions = words.number<std::uint32_t>("the number of regions"); regions > 0; --regions)
    image.regions.push_back(read_listed_box(words));
  return image;
}

}  // namespace

BoxList read_box_list(const std::string& path, const BoxListOptions& options) {
  const std::string text = io::read_file(path, kLargestBoxFile);
  ListWords words(text, path);
  BoxList list;
  while (!words.done()) {
    BoxedImage image = read_boxed_image(words, options.difficult);
    const bool has_objects = std::any_of(image.boxes.begin(), image.boxes.end(),
                                         [](const ListedBox& listed) { return !listed.ignored; });
    list.images.insert(list.images.end(), has_objects ? static_cast<std::size_t>(options.object_images) : 1,
                       image);
  }
  if (list.images.empty()) bad_input(banyan::quoted(path), " lists no images");
  if (!options.by_aspect) return list;
  const auto wide =
      std::stable_partition(list.images.begin(), list.images.end(),
                            [](const BoxedImage& image) { return image.height >= image.width; });
  for (const auto count : {wide - list.images.begin(), list.images.end() - wide}) {
    auto left = static_cast<std::uint64_t>(count);
    while (left > 0) {
      list.parts.push_back(options.part == 0 ? left : std::min(left, options.part));
      left -= list.parts.back();
    }
  }
  return list;
}

namespace {

std::shared_ptr<const BoxList> shared_box_list(const std::string& path, const BoxListOptions& options) {
  return open_once<const BoxList>(
      cat(options.difficult, options.by_aspect, " ", options.object_images, " ", options.part, " ", path),
      [&] { return std::make_shared<const BoxList>(read_box_list(path, options)); });
}

class BoxListFile : public BoxListSource, public std::enable_shared_from_this<BoxListFile> {
 public:
  BoxListFile(const std::string& path, const BoxListOptions& options)
      : path_(path), root_folder_(options.root_folder), list_(shared_box_list(path, options)) {}

  std::uint64_t size() const override { return list_->images.size(); }
  std::vector<std::uint64_t> parts() const override { return list_->parts; }
  std::string name() const override { return "list of boxes " + banyan::quoted(path_); }
  std::unique_ptr<RecordReader> reader() const override;
  std::shared_ptr<const BoxList> shared_list() const override { return list_; }
  const BoxList& list() const { return *list_; }
  std::string path_of(std::uint64_t image) const { return root_folder_ + list_->images[image].path; }

 private:
  std::string path_, root_folder_;
  std::shared_ptr<const BoxList> list_;
};

class BoxListReader : public RecordReader {
 public:
  explicit BoxListReader(std::shared_ptr<const BoxListFile> source) : source_(std::move(source)) {}

  void fetch(std::uint64_t position, Record& record) override {
    file_ = io::read_file(source_->path_of(position), kLargestBoxFile);
    record.stored = file_;
    record.label = static_cast<std::int32_t>(position);
  }
  void decode(Record& record) override {
    decode_image(reinterpret_cast<const std::uint8_t*>(record.stored.data()), record.stored.size(),
                 ColorMode::bgr, record.image);
    const BoxedImage& listed = source_->list().images[static_cast<std::size_t>(record.label)];
    const Image& image = record.image;
    if (image.height != listed.height || image.width != listed.width)
      bad_input("the list says ", listed.height, " x ", listed.width, ", but the image is ", image.height,
                " x ", image.width);
    record.show_image();
  }
  std::string describe(std::uint64_t position) override {
    return cat(source_->name(), ", image ", banyan::quoted(source_->path_of(position)));
  }

 private:
  std::shared_ptr<const BoxListFile> source_;
  std::string file_;
};

std::unique_ptr<RecordReader> BoxListFile::reader() const {
  return std::make_unique<BoxListReader>(shared_from_this());
}

}  // namespace

std::shared_ptr<BoxListSource> open_box_list(const std::string& path, const BoxListOptions& options) {
  return std::make_shared<BoxListFile>(path, options);
}

}  // namespace banyan::data
