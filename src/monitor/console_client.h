#pragma once
// Who sits at the console: a stream socket from outside, into which goes what the guest prints, and
// out of which comes what is typed. One at a time; who comes later takes the place.
//
// The guest never waits for a reader: output beyond kMaxUnsent is lost to the client, which is told
// (the log has it). What is typed waits in the socket until the guest's driver has room, so a guest
// that does not read makes us keep nothing.

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "mvm/loop/loop.h"
#include "mvm/proto/frame.h"
#include "mvm/sys/fd.h"
#include "mvm/virtio/console.h"

#include "device_slot.h"

namespace mvm::monitor {

class ConsoleClient {
 public:
  static constexpr size_t kMaxUnsent = 256 << 10;

  // `console` must outlive this; attach() comes before all else.
  ConsoleClient(loop::Loop& loop, virtio::Console& console) : loop_(&loop), console_(&console) {}
  // Serves the device's queues on the loop.
  void attach(DeviceSlot& slot);

  // On the loop's thread: `socket` sits there from now on.
  void connect(sys::Fd socket);
  void resize(proto::TerminalSize size);
  bool connected() const { return connected_; }

  // From any thread: what the guest prints.
  void write(ByteView output) noexcept;
  // On the loop's thread: sends what the socket takes of it now.
  void flush();

 private:
  void read();
  void watch();
  void hang_up();

  loop::Loop* loop_;
  virtio::Console* console_;
  DeviceSlot* slot_ = nullptr;
  std::vector<loop::Watch> kicks_;
  sys::Fd socket_;
  loop::Watch watch_;
  std::vector<sys::Fd> passed_;  // by a client that sends descriptors along: closed
  std::atomic<bool> connected_{false};

  std::mutex mutex_;  // of what follows
  std::string unsent_;
  uint64_t lost_ = 0;  // bytes since it was full
  bool posted_ = false;
};

}
