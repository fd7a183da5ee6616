#pragma once
// The file verbs (proto/files.h). What is done at once is done here; what takes long is a Stream
// that does a little in each turn, so that a directory of a million files does not keep the other
// commands waiting.

#include <memory>
#include <string_view>

#include "mvm/loop/loop.h"
#include "mvm/proto/files.h"

#include "channel.h"

namespace mvm::guest {

inline constexpr std::string_view kFileVerbPrefix = "fs.";

// Answers, or returns the verb in progress. Throws Error, also for a verb it does not know.
std::unique_ptr<Stream> open_file_verb(loop::Loop& loop, Channel& channel, std::string_view verb,
                                       ByteView payload);

// A Stream that gives out bulk data as credit allows, a bounded piece in each turn.
class Producer : public Stream {
 public:
  Producer(loop::Loop& loop, Channel& channel) : Stream(channel), loop_(&loop) {}
  void on_frame(const proto::Frame& frame) override;  // Cancel ends it
  void on_writable() override { schedule(); }
  void on_lost() override { channel().end({}); }

 protected:
  // Appends at most about kMaxPayload to `pending_`, or ends the channel when there is no more and
  // nothing is pending. Returns false when it has nothing to do until something calls schedule().
  virtual bool produce() = 0;
  void schedule();
  bool sent_all() const { return begin_ == pending_.size(); }
  size_t held() const { return pending_.size() - begin_; }
  loop::Loop& loop() { return *loop_; }
  Bytes pending_;

 private:
  void turn();
  loop::Loop* loop_;
  size_t begin_ = 0;
  loop::Watch next_;
};

std::unique_ptr<Stream> open_list(loop::Loop& loop, Channel& channel, ByteView payload);
std::unique_ptr<Stream> open_read(loop::Loop& loop, Channel& channel, ByteView payload);
std::unique_ptr<Stream> open_write(Channel& channel, ByteView payload);
std::unique_ptr<Stream> open_remove(loop::Loop& loop, Channel& channel, ByteView payload);
std::unique_ptr<Stream> open_watch(loop::Loop& loop, Channel& channel, ByteView payload);

}
