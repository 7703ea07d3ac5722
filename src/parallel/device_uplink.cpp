#include "banyan/parallel/device_uplink.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/narrow.hpp"
#include "banyan/ops/normalization.hpp"
#include "parallel/slot_exchange.hpp"

namespace banyan::parallel {
namespace {

using Clock = std::chrono::steady_clock;
using Way = DeviceTransfer::Way;

/// Sums up to this size go to everybody as a whole.
constexpr std::size_t kWhole = std::size_t{32} << 10;
/// An exchange that has been under way for so long holds its device up.
constexpr std::chrono::milliseconds kHoldsDeviceUp{1000};
/// What fails in the library may be another process that has ended, which the uplink below soon says.
constexpr std::chrono::milliseconds kUntilItSays{300};
/// Between two looks at what may have failed on the streams.
constexpr std::chrono::milliseconds kBetweenLooks{20};
constexpr std::chrono::microseconds kBetweenChecks{50};

enum MessageGroup { statistics_group, gradients_group, kGroups };

MessageGroup group_of(int slot) { return slot >= Uplink::kFirstBucket ? gradients_group : statistics_group; }

}  // namespace

class DeviceUplink::State {
 public:
  State(Uplink& uplink, const DeviceWires& library, std::optional<DType> reduce_precision)
      : below(uplink), wires(library), reduce_precision_(reduce_precision) {}
  ~State() { end_watch(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void attach(UplinkRun run) {
    fail_ = run.fail;
    const std::vector<Device*> devices = run.devices;
    held_up_ = std::vector<std::atomic<bool>>(devices.size());
    // While they join they wait for each other: who is silent then is missed.
    hold_up(true);
    run.held_up = [this](int device) { return held_up_[static_cast<std::size_t>(device)].load(); };
    below.attach(std::move(run));
    attached_ = true;
    try {
      check_devices(devices);
      join(devices);
      meet();
    } catch (const Error& error) {
      abort(error);
      end_exchanges();
      detach();
      throw;
    }
    hold_up(false);
    watch_ = std::thread([this] { watch(); });
  }

  void detach() noexcept {
    end_watch();
    leave();
    // It waits for the thread that may be aborting the exchanges because another process has failed.
    if (std::exchange(attached_, false)) below.detach();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_.clear();
    }
    held_up_.clear();
  }

  OtherDevices others() const {
    OtherDevices others = below.others();
    for (const std::atomic<bool>& device : held_up_) others.held_up.push_back(device);
    return others;
  }

  void begin(int slot, Tensor& message, UplinkMerge merge, const Meeting& meeting, ProcessRange among,
             Context& context, Doorbell& bell) {
    if (merge == UplinkMerge::first) {
      set_through_host(slot, true);
      below.begin(slot, message, merge, meeting, among, context, bell);
      return;
    }
    set_through_host(slot, false);
    if (among.size() == 1) return;
    End& end = end_of(context.device(), group_of(slot));
    const Merging merging{end, message, merge, peers_of(slot, among, end.local), among_index(among), context};
    if (const std::optional<ops::NarrowMessage> narrow = narrowed(slot, merging))
      merge_narrow(merging, *narrow);
    else if (merge == UplinkMerge::moments || message.bytes() <= kWhole)
      merge_whole(merging);
    else
      merge_pieces(merging);
    const std::lock_guard<std::mutex> lock(end.mutex);
    context.stream().record(*end.done);
    if (!std::exchange(end.busy, true)) end.since = Clock::now();
  }

  bool done(int slot, Context& context) {
    if (through_host(slot)) return below.done(slot, context);
    check();
    return true;
  }

  /// The watch ends what is under way on the streams: that takes the library a while, and this may be the
  /// thread on which processes tell each other what has failed.
  void abort(const Error& error) noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!error_) error_ = error;
    }
    ended_.notify_all();
    below.abort(error);
  }

  Uplink& below;
  const DeviceWires& wires;

 private:
  /// A device's end of a group.
  struct End {
    int local = 0;  ///< number of the device in this process
    std::unique_ptr<DeviceWire> wire;
    std::vector<Tensor> rooms;    ///< for others' parts; none is given back, as a stream might still use it
    std::mutex mutex;             ///< of what follows, and of ready(), which the watch calls too
    std::unique_ptr<Event> done;  ///< the exchange begun last
    bool busy = false;            ///< it may be under way
    Clock::time_point since;      ///< when it has been
    std::optional<Clock::time_point> connecting;  ///< since when the library has not taken up an exchange
  };
  /// One message.
  struct Merging {
    End& end;
    Tensor& message;
    UplinkMerge merge;
    std::vector<int> peers;  ///< ranks of the roots, in process order, this one included
    int mine;                ///< among them
    Context& context;
    int count() const { return static_cast<int>(peers.size()); }
  };

  void check() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_) throw Error(*error_);
  }

  void set_through_host(int slot, bool through) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (through)
      through_host_.insert(slot);
    else
      through_host_.erase(slot);
  }
  bool through_host(int slot) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return through_host_.contains(slot);
  }

  // Joining, on one thread.

  void hold_up(bool held_up) {
    for (std::atomic<bool>& device : held_up_) device = held_up;
  }

  static void check_devices(const std::vector<Device*>& devices) {
    for (std::size_t i = 0; i < devices.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (devices[i]->ordinal() == devices[j]->ordinal())
          bad_input("devices that exchange directly with other processes cannot share one: ",
                    devices[j]->name(), " and ", devices[i]->name());
  }

  void join(const std::vector<Device*>& devices) {
    const UplinkPlace& place = below.place();
    std::vector<std::unique_ptr<End>> ends;
    for (int group = 0; group < kGroups; ++group) {
      const std::string key = below.share(place.process == 0 ? wires.make_key() : "")[0];
      for (std::size_t i = 0; i < devices.size(); ++i) {
        auto end = std::make_unique<End>();
        end->local = static_cast<int>(i);
        end->done = devices[i]->create_event();
        end->wire = wires.join(*devices[i], key, place.devices(), place.first_rank() + end->local);
        ends.push_back(std::move(end));
      }
    }
    devices_ = devices;
    std::vector<End*> joining;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = std::move(ends);
      for (const auto& end : ends_) joining.push_back(end.get());
    }
    for (End* end : joining) wait_until_ready(*end);
  }

  /// Owners of buckets connect now: later, they would do it on threads for which other devices wait.
  void meet() {
    std::vector<std::unique_ptr<Context>> contexts;
    std::vector<Tensor> tokens;
    try {
      exchange_tokens(contexts, tokens);
    } catch (...) {
      end_exchanges();  // before the tokens go, for which the streams may still wait
      throw;
    }
  }
  void exchange_tokens(std::vector<std::unique_ptr<Context>>& contexts, std::vector<Tensor>& tokens) {
    const UplinkPlace& place = below.place();
    const int owners = *std::min_element(place.devices_of.begin(), place.devices_of.end());
    for (int local = 0; local < owners; ++local) {
      Device& device = *devices_[static_cast<std::size_t>(local)];
      contexts.push_back(std::make_unique<Context>(device));
      tokens.emplace_back(device, Shape{place.processes()}, DType::f32);
      contexts.back()->stream().zero(tokens.back().raw(), tokens.back().bytes());
      End& end = end_of(device, gradients_group);
      std::vector<DeviceTransfer> transfers;
      for (int process = 0; process < place.processes(); ++process) {
        if (process == place.process) continue;
        const int rank = place.first_rank(process) + local;
        transfers.push_back({Way::send, rank, at(tokens.back(), place.process), sizeof(float)});
        transfers.push_back({Way::receive, rank, at(tokens.back(), process), sizeof(float)});
      }
      device.make_current();
      end.wire->exchange(contexts.back()->stream(), transfers);
    }
    for (int local = 0; local < owners; ++local) {
      Context& context = *contexts[static_cast<std::size_t>(local)];
      End& end = end_of(context.device(), gradients_group);
      wait_until_ready(end);
      context.stream().record(*end.done);
      wait_until([&] { return end.done->done(); });
    }
  }

  static void* at(Tensor& tensor, std::int64_t element) {
    return static_cast<char*>(tensor.raw()) + element * static_cast<std::int64_t>(size_of(tensor.dtype()));
  }

  template <class Reached>
  void wait_until(const Reached& reached) {
    while (!reached()) {
      check();
      std::this_thread::sleep_for(kBetweenChecks);
    }
    check();
  }
  void wait_until_ready(End& end) {
    wait_until([&] {
      const std::lock_guard<std::mutex> lock(end.mutex);
      return end.wire->ready();
    });
  }

  // Merging, on the threads of the roots.

  End& end_of(const Device& device, MessageGroup group) {
    const auto found = std::find(devices_.begin(), devices_.end(), &device);
    if (found == devices_.end()) runtime_failure(device.name(), " has not joined the other processes");
    return *ends_[static_cast<std::size_t>(group) * devices_.size() +
                  static_cast<std::size_t>(found - devices_.begin())];
  }

  std::vector<int> peers_of(int slot, ProcessRange among, int local) const {
    const UplinkPlace& place = below.place();
    std::vector<int> peers;
    for (int process = among.first; process <= among.last; ++process) {
      const int device = group_of(slot) == gradients_group ? local
                         : process == among.first          ? among.first_device
                                                           : 0;
      peers.push_back(place.first_rank(process) + device);
    }
    return peers;
  }
  int among_index(ProcessRange among) const { return below.place().process - among.first; }

  void exchange(const Merging& merging, const std::vector<DeviceTransfer>& transfers) {
    check();
    try {
      {
        const std::lock_guard<std::mutex> lock(merging.end.mutex);
        merging.end.wire->exchange(merging.context.stream(), transfers);
        merging.end.connecting = Clock::now();
      }
      wait_until_ready(merging.end);
    } catch (const Error& error) {
      throw cause_of(error);
    }
    const std::lock_guard<std::mutex> lock(merging.end.mutex);
    merging.end.connecting.reset();
  }

  Error cause_of(const Error& failure) {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait_for(lock, kUntilItSays, [this] { return ending_ || error_; });
    return error_.value_or(failure);
  }

  /// So many bytes; what an exchange before this one had there is lost.
  static Tensor room_for(const Merging& merging, std::int64_t bytes) {
    std::vector<Tensor>& rooms = merging.end.rooms;
    if (rooms.empty() || rooms.back().count() < bytes) {
      std::int64_t room = rooms.empty() ? std::int64_t{64} << 10 : rooms.back().count();
      while (room < bytes) room *= 2;
      rooms.emplace_back(merging.context.device(), Shape{room}, DType::u8);
    }
    return rooms.back().slice(0, Shape{bytes});
  }

  /// Room for the others' parts, each of `count` values like those of the message.
  static std::vector<Tensor> parts_for(const Merging& merging, std::int64_t count) {
    const Tensor& message = merging.message;
    const auto element = static_cast<std::int64_t>(size_of(message.dtype()));
    const std::int64_t bytes = (count * element + kCacheLine - 1) / kCacheLine * kCacheLine;
    const Tensor room = room_for(merging, bytes * merging.count());
    std::vector<Tensor> parts;
    for (int peer = 0; peer < merging.count(); ++peer)
      parts.push_back(room.bytes_as(peer * bytes, message.dtype(), Shape{count}, Layout::contiguous));
    return parts;
  }

  /// `own`, this process's part, becomes the merge of all parts, in process order.
  static void merge_in_order(const Merging& merging, std::vector<Tensor>& parts, Tensor& own) {
    parts[static_cast<std::size_t>(merging.mine)] = own;
    Tensor& result = parts[0];
    if (merging.merge == UplinkMerge::moments) {
      for (std::size_t peer = 1; peer < parts.size(); ++peer)
        ops::merge_moments(merging.context, parts[peer], result);
    } else {
      for (std::size_t peer = 1; peer < parts.size(); peer += ops::kMostParts)
        ops::add_parts(merging.context,
                       std::span<const Tensor>(&parts[peer], std::min(ops::kMostParts, parts.size() - peer)),
                       result);
    }
    if (merging.mine != 0) merging.context.stream().copy(own.raw(), result.raw(), own.bytes());
  }

  void merge_whole(const Merging& merging) {
    Tensor& message = merging.message;
    std::vector<Tensor> parts = parts_for(merging, message.count());
    std::vector<DeviceTransfer> transfers;
    for (int peer = 0; peer < merging.count(); ++peer) {
      if (peer == merging.mine) continue;
      Tensor& part = parts[static_cast<std::size_t>(peer)];
      transfers.push_back({Way::send, merging.peers[peer], message.raw(), message.bytes()});
      transfers.push_back({Way::receive, merging.peers[peer], part.raw(), part.bytes()});
    }
    exchange(merging, transfers);
    Tensor own = message.slice(0, Shape{message.count()});
    merge_in_order(merging, parts, own);
  }

  void merge_pieces(const Merging& merging) {
    Tensor& message = merging.message;
    const std::int64_t line = kCacheLine / static_cast<std::int64_t>(size_of(message.dtype()));
    const std::int64_t size =
        ((message.count() + merging.count() - 1) / merging.count() + line - 1) / line * line;
    const auto piece = [&](int peer) {
      const std::int64_t first = std::min(peer * size, message.count());
      return message.slice(first, Shape{std::min(size, message.count() - first)});
    };
    Tensor own = piece(merging.mine);
    std::vector<Tensor> parts = parts_for(merging, own.count());
    std::vector<DeviceTransfer> up, down;
    const auto add = [](std::vector<DeviceTransfer>& to, Way way, int rank, Tensor& values) {
      if (values.count() > 0) to.push_back({way, rank, values.raw(), values.bytes()});
    };
    for (int peer = 0; peer < merging.count(); ++peer) {
      if (peer == merging.mine) continue;
      const int rank = merging.peers[peer];
      Tensor theirs = piece(peer);
      add(up, Way::send, rank, theirs);
      add(up, Way::receive, rank, parts[static_cast<std::size_t>(peer)]);
      add(down, Way::send, rank, own);
      add(down, Way::receive, rank, theirs);
    }
    exchange(merging, up);
    if (own.count() > 0) merge_in_order(merging, parts, own);
    exchange(merging, down);
  }

  /// How the message travels in 16 bits; nothing: it does not. As a WireUplink would cut it, so that the
  /// same values are rounded at the same points.
  std::optional<ops::NarrowMessage> narrowed(int slot, const Merging& merging) const {
    const Tensor& message = merging.message;
    if (!reduce_precision_ || group_of(slot) != gradients_group || merging.merge != UplinkMerge::sum ||
        message.dtype() != DType::f32 || message.bytes() <= SlotExchange::kInline)
      return std::nullopt;
    ops::NarrowMessage narrow;
    narrow.type = *reduce_precision_;
    narrow.count = message.count();
    narrow.size =
        SlotExchange::piece_size(message.count(), static_cast<std::int64_t>(sizeof(float)), merging.count());
    narrow.owners = merging.count();
    narrow.turn = SlotExchange::turn_of(slot, merging.count());
    return narrow;
  }

  /// Each root sends the others what it has packed for them, adds what they have packed for it to its own
  /// part, which is not rounded, packs the sums and sends those. It too goes on with what the others get.
  void merge_narrow(const Merging& merging, const ops::NarrowMessage& narrow) {
    const std::int64_t block = narrow.block_bytes(), blocks = block * merging.count();
    const Tensor room = room_for(merging, 2 * blocks);
    Tensor packed = room.slice(0, Shape{blocks}), parts = room.slice(blocks, Shape{blocks});
    std::vector<DeviceTransfer> up, down;
    const auto add = [&](std::vector<DeviceTransfer>& to, Way way, int peer, Tensor& from, int number,
                         int owner) {
      const std::int64_t bytes = narrow.bytes_of(owner);
      if (bytes > 0)
        to.push_back({way, merging.peers[static_cast<std::size_t>(peer)], at(from, number * block),
                      static_cast<std::size_t>(bytes)});
    };
    for (int peer = 0; peer < merging.count(); ++peer) {
      if (peer == merging.mine) continue;
      add(up, Way::send, peer, packed, peer, peer);
      add(up, Way::receive, peer, parts, peer, merging.mine);
      add(down, Way::send, peer, packed, merging.mine, merging.mine);
      add(down, Way::receive, peer, packed, peer, peer);
    }
    ops::pack_narrow(merging.context, merging.message, narrow, ops::kAllOwners, packed);
    exchange(merging, up);
    ops::add_narrow(merging.context, parts, narrow, merging.mine, merging.message);
    ops::pack_narrow(merging.context, merging.message, narrow, merging.mine, packed);
    exchange(merging, down);
    ops::unpack_narrow(merging.context, packed, narrow, merging.message);
  }

  // The watch: what fails on the streams, and which devices wait there.

  void watch() {
    ::pthread_setname_np(::pthread_self(), "device uplink");
    const auto over = [this] { return ending_ || error_; };
    try {
      for (std::unique_lock<std::mutex> lock(mutex_); !over(); ended_.wait_for(lock, kBetweenLooks, over)) {
        lock.unlock();
        look();
        lock.lock();
      }
    } catch (const Error& error) {
      const Error cause = cause_of(error);
      if (fail_) fail_(cause);
      abort(cause);  // unless that has done it
    }
    if (failed()) end_exchanges();
  }

  bool failed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return error_.has_value();
  }

  /// After a failure, when nobody adds or removes ends.
  void end_exchanges() noexcept {
    std::vector<DeviceWire*> exchanging;
    for (const auto& end : ends_) exchanging.push_back(end->wire.get());
    wires.abort(exchanging);
  }

  void look() {
    std::vector<bool> held_up(devices_.size());
    for (const auto& end : ends_) {
      const std::lock_guard<std::mutex> lock(end->mutex);
      static_cast<void>(end->wire->ready());
      if (end->busy && end->done->done()) end->busy = false;
      const Clock::time_point now = Clock::now();
      if ((end->busy && now - end->since > kHoldsDeviceUp) ||
          (end->connecting && now - *end->connecting > kHoldsDeviceUp))
        held_up[static_cast<std::size_t>(end->local)] = true;
    }
    for (std::size_t i = 0; i < held_up.size(); ++i) held_up_[i] = held_up[i];
  }

  void end_watch() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    ended_.notify_all();
    if (watch_.joinable()) watch_.join();
    ending_ = false;
  }

  /// The devices are done with everything, or have failed. The others may wait for this process to leave, so
  /// they are told if it cannot.
  void leave() noexcept {
    try {
      check();
      for (const auto& end : ends_) end->wire->leave();
      for (const auto& end : ends_) wait_until_ready(*end);
    } catch (const Error& error) {
      abort(error);
      end_exchanges();
    }
  }

  const std::optional<DType> reduce_precision_;
  std::function<void(const Error&)> fail_;
  bool attached_ = false;
  std::vector<Device*> devices_;
  std::vector<std::atomic<bool>> held_up_;  ///< of the devices
  std::vector<std::unique_ptr<End>> ends_;  ///< of the devices, group by group
  mutable std::mutex mutex_;                ///< of what follows, and of changes of ends_
  std::optional<Error> error_;
  std::set<int> through_host_;  ///< slots whose exchange under way is that of the uplink below
  bool ending_ = false;
  std::condition_variable ended_;
  std::thread watch_;
};

DeviceUplink::DeviceUplink(Uplink& below, const DeviceWires& wires, std::optional<DType> reduce_precision)
    : state_(std::make_unique<State>(below, wires, reduce_precision)) {}
DeviceUplink::~DeviceUplink() = default;

const UplinkPlace& DeviceUplink::place() const { return state_->below.place(); }
std::string DeviceUplink::name() const { return state_->below.name(); }
std::vector<std::string> DeviceUplink::share(const std::string& mine) { return state_->below.share(mine); }
void DeviceUplink::attach(UplinkRun run) { state_->attach(std::move(run)); }
void DeviceUplink::detach() noexcept { state_->detach(); }
OtherDevices DeviceUplink::others() const { return state_->others(); }
void DeviceUplink::begin(int slot, Tensor& message, UplinkMerge merge, const Meeting& meeting,
                         ProcessRange among, Context& context, Doorbell& bell) {
  state_->begin(slot, message, merge, meeting, among, context, bell);
}
bool DeviceUplink::done(int slot, Context& context) { return state_->done(slot, context); }
void DeviceUplink::abort(const Error& error) noexcept { state_->abort(error); }
bool DeviceUplink::speaks() const { return state_->below.speaks(); }
void DeviceUplink::let_others_speak() const { state_->below.let_others_speak(); }

}  // namespace banyan::parallel
