// DocData (ctensmeyer's Caffe): images of documents, with numbers that are known of them, from one or more
// databases. Outputs: images N x C x H x W as image_transform_param makes them, then N of each number that
// label_names has. The branch gives the last two axes in the other order, which is wrong unless images are
// square; here they are rows and columns, as the pixels are. A batch is of one database; it and what is drawn
// for the whole batch are the same on all devices.
#include <algorithm>

#include "banyan/base/text.hpp"
#include "banyan/data/documents.hpp"
#include "banyan/data/image_transforms.hpp"
#include "banyan/data/leveldb.hpp"
#include "banyan/data/lmdb_source.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

namespace {

class DocDataLayer : public SourceLayer {
 public:
  DocDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 1, -1}) {}

 protected:
  Settings settings() const override {
    if (documents().sources().empty()) refuse("doc_data_param.sources", "is missing");
    data::check_documents(documents(), name());
    const int labels = documents().label_names_size(), tops = parameter().top_size();
    if (tops != labels + 1)
      refuse("doc_data_param.label_names",
             cat("has ", labels, labels == 1 ? " name" : " names", " for ", tops,
                 tops == 1 ? " top" : " tops", "; expected one for each top after the first"));
    Settings settings;
    settings.field = "doc_data_param";
    settings.batch_size = documents().batch_size();
    settings.threads = static_cast<int>(std::clamp<std::uint32_t>(documents().threads(), 1, 256));
    return settings;
  }

  void check_transform() const override {
    if (parameter().transform_param().ByteSizeLong() > 0)
      refuse("transform_param",
             "has no effect in DocData: image_transform_param says what becomes of an image");
    data::check_image_transforms(parameter().image_transform_param(), name());
  }

  std::shared_ptr<data::RecordSource> open() const override {
    std::vector<std::shared_ptr<data::RecordSource>> databases;
    for (const std::string& folder : documents().sources())
      databases.push_back(is_leveldb(folder) ? data::open_leveldb(folder) : data::open_lmdb(folder));
    return data::mix_documents(std::move(databases), documents(), items_per_batch(settings()),
                               key_of("databases"));
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    return std::make_shared<data::ImageTransformWriter>(
        parameter().image_transform_param(), static_cast<std::size_t>(documents().label_names_size()),
        options().seed, name());
  }

 private:
  const caffe::DocDataParameter& documents() const { return parameter().doc_data_param(); }
  bool is_leveldb(const std::string& folder) const {
    if (documents().has_backend()) return documents().backend() == caffe::DataParameter::LEVELDB;
    return data::holds_leveldb(folder);
  }
};

const RegisterLayer<DocDataLayer> registered_doc_data("DocData",
                                                      {.about = "images of documents (ctensmeyer's Caffe)",
                                                       .message = "doc_data_param",
                                                       .examples = {},
                                                       .further = {"image_transform_param"}});

}  // namespace

}  // namespace banyan
