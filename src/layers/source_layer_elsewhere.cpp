// Sources whose data another process of this machine reads.
#include <algorithm>
#include <atomic>

#include "layers/source_layer.hpp"

namespace banyan {

void SourceLayer::open_elsewhere() {
  const data::OfferedSource offered = shared_->describe(shared_name_);
  source_ = data::source_elsewhere(offered);
  writer_ = data::writer_elsewhere(offered);
  item_ = offered.item;
}

/// Each of the prefetcher's threads is a reader of its own, as it would be here.
data::Prefetcher::MakeFill SourceLayer::fill_elsewhere(const data::AssemblerOptions& assembly) const {
  return [shared = shared_, what = shared_name_, dtype = assembly.dtype, layout = assembly.layout,
          items = assembly.items](const std::shared_ptr<data::HostMemory>& memory) -> data::Prefetcher::Fill {
    static std::atomic<std::uint64_t> readers{0};
    return [=, reader = ++readers](data::HostBatch& batch) {
      shared->fetch({what, reader, batch.share, dtype, layout}, batch, *memory,
                    [&] { return memory->ending(); });
      *items += std::max<std::uint64_t>(batch.share.count, 1);
    };
  };
}

}  // namespace banyan
