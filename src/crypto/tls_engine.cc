// The engine: moves bytes between OpenSSL and the caller's memory, and keeps account of where the
// connection stands. OpenSSL reads records straight from the caller's input, and what it writes is
// appended to `output`; so ciphertext is copied once each way and nothing waits in between.

#include <algorithm>

#include "tls_impl.h"

namespace mvm::crypto {

// Room for the output is made in two sizes, and given back whenever it has been sent: idle
// connections are many, and malloc costs little beside a record's encryption.
static constexpr size_t kSmallOutput = 4096;
static constexpr size_t kLargeOutput = 64 * 1024;

// ---- the BIO --------------------------------------------------------------------------------

static TlsEngine::Impl& engine_of(BIO* bio) {
  return *static_cast<TlsEngine::Impl*>(BIO_get_data(bio));
}

static int bio_read(BIO* bio, char* to, size_t length, size_t* got) {
  ByteView& input = engine_of(bio).input;
  BIO_clear_retry_flags(bio);
  *got = std::min(length, input.size());
  if (*got == 0) {
    BIO_set_retry_read(bio);
    return 0;
  }
  std::memcpy(to, input.data(), *got);
  input = input.subspan(*got);
  return 1;
}

static int bio_write(BIO* bio, const char* from, size_t length, size_t* put) {
  TlsEngine::Impl& engine = engine_of(bio);
  BIO_clear_retry_flags(bio);
  const size_t size = engine.output.size() + length;
  if (size > engine.output.capacity())
    engine.output.reserve(size <= kSmallOutput   ? kSmallOutput
                          : size <= kLargeOutput ? kLargeOutput
                                                 : 2 * kMaxOutput);
  const ByteView data = as_bytes({from, length});
  engine.output.insert(engine.output.end(), data.begin(), data.end());
  *put = length;
  return 1;
}

static long bio_control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static const BIO_METHOD* bio_method() {
  struct Made {
    Made()
        : method(need_object(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "mvm"),
                             "starting TLS")) {
      BIO_meth_set_read_ex(method, bio_read);
      BIO_meth_set_write_ex(method, bio_write);
      BIO_meth_set_ctrl(method, bio_control);
    }
    ~Made() { BIO_meth_free(method); }
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;
    BIO_METHOD* method;
  };
  static const Made made;
  return made.method;
}

BIO* make_engine_bio(TlsEngine::Impl* engine) {
  BIO* bio = need_object(BIO_new(bio_method()), "starting TLS");
  BIO_set_data(bio, engine);
  BIO_set_init(bio, 1);
  return bio;
}

TlsEngine::Impl* engine_of(const SSL* ssl) noexcept {
  return static_cast<TlsEngine::Impl*>(SSL_get_app_data(ssl));
}

// ---- progress -------------------------------------------------------------------------------

TlsEngine::Impl::~Impl() {
  // OpenSSL would make the session unusable for a connection that ended without close_notify; most
  // do, and it says nothing about the session. Only one that failed takes its session along.
  if (phase != TlsPhase::Failed || failure.fault == TlsFault::Truncated)
    SSL_set_shutdown(ssl.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

void TlsEngine::Impl::fail(TlsFailure why) {
  phase = TlsPhase::Failed;
  failure = std::move(why);
}

bool TlsEngine::Impl::waits(int result) {
  switch (SSL_get_error(ssl.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return true;
    case SSL_ERROR_WANT_CLIENT_HELLO_CB:
      phase = TlsPhase::Hello;
      return true;
    case SSL_ERROR_ZERO_RETURN:
      peer_closed = true;
      if (close_sent) phase = TlsPhase::Closed;
      return true;
    default:
      break;
  }
  TlsFailure why = take_library_failure();
  if (cause) why = *std::move(cause);
  fail(std::move(why));
  return false;
}

void TlsEngine::Impl::handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl.get());
  if (result == 1) {
    phase = TlsPhase::Open;
  } else {
    phase = TlsPhase::Handshake;
    waits(result);
  }
}

size_t TlsEngine::Impl::read_open(std::span<std::byte> plain) {
  size_t total = 0;
  while (total < plain.size() && waiting() < kMaxOutput && !peer_closed) {
    ERR_clear_error();
    size_t got = 0;
    const int result = SSL_read_ex(ssl.get(), plain.data() + total, plain.size() - total, &got);
    if (result != 1) {
      waits(result);
      break;
    }
    total += got;
  }
  return total;
}

void TlsEngine::Impl::write_open(ByteView& plain) {
  while (!plain.empty() && waiting() < kMaxOutput) {
    ERR_clear_error();
    size_t put = 0;
    const size_t length = std::min(plain.size(), kMaxOutput - waiting());
    const int result = SSL_write_ex(ssl.get(), plain.data(), length, &put);
    if (result != 1) {
      waits(result);
      return;
    }
    plain = plain.subspan(put);
  }
}

void TlsEngine::Impl::close() {
  if (close_sent || phase == TlsPhase::Failed) return;
  close_sent = true;
  if (phase != TlsPhase::Open) {
    // Nothing has been agreed on, so there is nothing to end in good order.
    phase = TlsPhase::Closed;
    return;
  }
  ERR_clear_error();
  // 0 and 1 tell whether the peer has closed, which is known here.
  if (SSL_shutdown(ssl.get()) < 0) ERR_clear_error();
  if (peer_closed) phase = TlsPhase::Closed;
}

// ---- the public face ------------------------------------------------------------------------

TlsEngine::TlsEngine(TlsServerContext& context) : impl_(std::make_unique<Impl>(context)) {}
TlsEngine::TlsEngine(TlsClientContext& context, const TlsPeer& peer)
    : impl_(std::make_unique<Impl>(context, peer)) {}
TlsEngine::~TlsEngine() = default;
TlsEngine::TlsEngine(TlsEngine&&) noexcept = default;
TlsEngine& TlsEngine::operator=(TlsEngine&&) noexcept = default;

TlsPhase TlsEngine::phase() const noexcept { return impl_->phase; }
const TlsFailure& TlsEngine::failure() const noexcept { return impl_->failure; }

size_t TlsEngine::read(ByteView& input, std::span<std::byte> plain) {
  impl_->input = input;
  size_t got = 0;
  if (impl_->phase == TlsPhase::Handshake) impl_->handshake();
  if (impl_->phase == TlsPhase::Open) got = impl_->read_open(plain);
  input = impl_->input;
  impl_->input = {};
  return got;
}

bool TlsEngine::holds_plaintext() const noexcept {
  return impl_->phase == TlsPhase::Open && SSL_pending(impl_->ssl.get()) > 0;
}

void TlsEngine::write(ByteView& plain) {
  if (impl_->phase == TlsPhase::Open && !impl_->close_sent) impl_->write_open(plain);
}

ByteView TlsEngine::output() const noexcept {
  return ByteView(impl_->output).subspan(impl_->output_start);
}

void TlsEngine::sent(size_t length) {
  MVM_ASSERT(length <= impl_->waiting());
  impl_->output_start += length;
  if (impl_->waiting() != 0) return;
  impl_->output_start = 0;
  impl_->output = {};
}

void TlsEngine::close() { impl_->close(); }
bool TlsEngine::peer_closed() const noexcept { return impl_->peer_closed; }

void TlsEngine::end_of_input() {
  if (impl_->peer_closed || impl_->phase == TlsPhase::Closed || impl_->phase == TlsPhase::Failed)
    return;
  impl_->fail({TlsFault::Truncated, 0,
               impl_->phase == TlsPhase::Open ? "the connection ended without a close_notify"
                                              : "the connection ended within the TLS handshake"});
}

const TlsHello& TlsEngine::hello() const noexcept { return impl_->hello; }

void TlsEngine::accept(std::shared_ptr<const Leaf> leaf, std::string_view protocol) {
  MVM_ASSERT(impl_->phase == TlsPhase::Hello && leaf != nullptr);
  impl_->leaf = std::move(leaf);
  impl_->chosen_protocol = protocol;
  impl_->handshake();
}

void TlsEngine::refuse(TlsAlert alert) {
  MVM_ASSERT(impl_->phase == TlsPhase::Hello);
  impl_->refusal = alert;
  impl_->cause = {TlsFault::Refused, 0,
                  "refused with " + std::string(alert_name(static_cast<uint8_t>(alert)))};
  impl_->handshake();
}

bool TlsEngine::asked_for_certificate() const noexcept { return impl_->asked_for_certificate; }

std::string_view TlsEngine::protocol() const noexcept {
  const unsigned char* name = nullptr;
  unsigned length = 0;
  SSL_get0_alpn_selected(impl_->ssl.get(), &name, &length);
  // char may alias anything.
  return {reinterpret_cast<const char*>(name), length};
}
std::string_view TlsEngine::version() const noexcept { return SSL_get_version(impl_->ssl.get()); }
bool TlsEngine::resumed() const noexcept { return SSL_session_reused(impl_->ssl.get()) == 1; }

}
