// Lists of images with boxes around objects, as MS-CNN and Cascade R-CNN read them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/data/record.hpp"

namespace banyan::data {

struct ListedBox {
  Box box;  ///< in pixels of the image
  int label = 0;
  bool ignored = false, difficult = false;
};
struct BoxedImage {
  std::string path;
  int height = 0, width = 0;
  std::vector<ListedBox> boxes;
  std::vector<Box> regions;  ///< where there may be objects without boxes
};
struct BoxList {
  std::vector<BoxedImage> images;
  std::vector<std::uint64_t> parts;  ///< see RecordSource::parts()
};

struct BoxListOptions {
  std::string root_folder;  ///< prepended to each path as is
  bool difficult = false;   ///< whether a box's third number says that it is difficult
  int object_images = 1;    ///< how often the list has an image with an object that is not ignored
  bool by_aspect = false;   ///< high images first, then wide ones, as parts of their own
  std::uint64_t part = 0;   ///< of at most so many images; 0: any number
};

/// Blocks of `# number`, path, channels, height, width, number of boxes, and for each box its label, whether
/// it is ignored, perhaps whether it is difficult, x1, y1, x2, y2; then a number of regions and their x1, y1,
/// x2, y2. Throws bad_input `file:line: ...`.
BoxList read_box_list(const std::string& path, const BoxListOptions& options);

/// Records of colour images; `label` is the image's number in the list.
class BoxListSource : public RecordSource {
 public:
  virtual std::shared_ptr<const BoxList> shared_list() const = 0;
};
/// The list is read once per process.
std::shared_ptr<BoxListSource> open_box_list(const std::string& path, const BoxListOptions& options);

}  // namespace banyan::data
