// gRPC as its own library speaks it, with nothing said of certificates: calls of all four shapes,
// and a placeholder for the key in their metadata.
#include "clients.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kGrpc = "93.184.216.34";
constexpr std::string_view kValue = "k3y-of-n0body/0123456789+abcdef";

// Tells what each call came with, and says it back behind the answer.
constexpr const char* kServer = R"(
import grpc, sys
from concurrent import futures
def key(context):
  found = dict(context.invocation_metadata()).get('authorization', '-')
  context.set_trailing_metadata((('x-came-with', found),))
  return found
def tell(name):
  def told(f):
    def call(request, context):
      print(name, key(context), flush=True)
      return f(request)
    return call
  return told
handlers = {
  'Unary': grpc.unary_unary_rpc_method_handler(tell('unary')(lambda r: r[::-1])),
  'Count': grpc.unary_stream_rpc_method_handler(tell('count')(lambda r: (b'%d' % i for i in range(int(r))))),
  'Sum': grpc.stream_unary_rpc_method_handler(tell('sum')(lambda r: b'%d' % sum(len(x) for x in r))),
  'Chat': grpc.stream_stream_rpc_method_handler(tell('chat')(lambda r: (x.upper() for x in r))),
}
class All(grpc.GenericRpcHandler):
  def service(self, d): return handlers.get(d.method.rsplit('/', 1)[1])
s = grpc.server(futures.ThreadPoolExecutor(8)); s.add_generic_rpc_handlers((All(),))
address, pem = sys.argv[1:]
s.add_secure_port(address + ':443', grpc.ssl_server_credentials([(open(pem + '.key', 'rb').read(), open(pem, 'rb').read())]))
s.start(); s.wait_for_termination()
)";

constexpr const char* kClient = R"(
import grpc, sys
key = sys.argv[1]
own = grpc.ssl_channel_credentials()
def tell(name, answer, call): print(name, answer, dict(call.trailing_metadata()).get('x-came-with') == 'Bearer ' + key)
def error(f):
  try: print(f())
  except grpc.RpcError as e: print(e.code().name, '|', e.details())
# As a library of a vendor's does it, for each call; and by hand.
with grpc.secure_channel('grpc.example:443', grpc.composite_channel_credentials(own, grpc.access_token_call_credentials(key))) as c:
  tell('unary', *c.unary_unary('/echo.Echo/Unary').with_call(b'abc'))
  call = c.unary_stream('/echo.Echo/Count')(b'3'); tell('count', list(call), call)
  tell('sum', *c.stream_unary('/echo.Echo/Sum').with_call(b'x' * 100000 for i in range(3)))
  call = c.stream_stream('/echo.Echo/Chat')(iter([b'a', b'b'])); tell('chat', list(call), call)
  error(lambda: c.unary_unary('/admin.Admin/Wipe')(b''))
with grpc.secure_channel('grpc.example:443', own) as c:
  tell('unary', *c.unary_unary('/echo.Echo/Unary').with_call(b'abc', metadata=(('authorization', 'Bearer ' + key),)))
  error(lambda: c.unary_unary('/echo.Echo/Unary')(b'', metadata=(('x-other', key),)))
)";

constexpr const char* kNodeClient = R"(
const grpc = require('@grpc/grpc-js'), [key] = process.argv.slice(1)
const client = new grpc.Client('grpc.example:443', grpc.credentials.createSsl())
const as_is = b => b, with_key = new grpc.Metadata(); with_key.set('authorization', 'Bearer ' + key)
const tell = (name, answer, call, trailer) => console.log(name, answer, trailer.get('x-came-with')[0] == 'Bearer ' + key)
// A call of one answer, and one of many: what came of it, and what came behind that.
const one = (name, begin) => new Promise((good, bad) => {
  let answer
  const call = begin((e, v) => e ? bad(e) : answer = v.toString())
  call.on('status', s => { tell(name, answer, call, s.metadata); good() })
})
const many = (name, call) => new Promise((good, bad) => {
  const got = []
  call.on('data', d => got.push(d.toString())).on('error', bad).on('status', s => { tell(name, got.join(), call, s.metadata); good() })
})
;(async () => {
  const way = name => ['/echo.Echo/' + name, as_is, as_is]
  await one('unary', done => client.makeUnaryRequest(...way('Unary'), Buffer.from('abc'), with_key, done))
  await many('count', client.makeServerStreamRequest(...way('Count'), Buffer.from('3'), with_key))
  await one('sum', done => {
    const call = client.makeClientStreamRequest(...way('Sum'), with_key, done)
    for (let i = 0; i < 3; ++i) call.write(Buffer.alloc(100000))
    call.end(); return call
  })
  const chat = client.makeBidiStreamRequest(...way('Chat'), with_key)
  for (const word of 'ab') chat.write(Buffer.from(word))
  chat.end(); await many('chat', chat)
  await new Promise(good => client.makeUnaryRequest('/admin.Admin/Wipe', as_is, as_is, Buffer.alloc(0), e => { console.log(grpc.status[e.code]); good() }))
  client.close()
})().catch(e => { console.error(e); process.exit(1) })
)";

class Grpc : public ClientWorld {
 protected:
  // A server, a key for it, and a rule for its methods. Returns what the guest has for the key.
  std::string begin() {
    own_host("grpc.example", kGrpc);
    server_ = &serve({"/usr/bin/python3", "-c", kServer, kGrpc, directory() + "/grpc.example.pem"},
                     {ip(kGrpc), 443});
    proto::SecretRule rule;
    rule.name = "GRPC_TOKEN";
    rule.hosts = {"grpc.example"};
    const std::string key = use_secrets({rule}, std::string(kValue)).at(0);
    allow_endpoint("POST https://grpc.example/echo.Echo/*");
    start();
    return key;
  }
  // That the server was shown the value in each of these calls.
  void expect_calls(const std::vector<std::string>& names) const {
    std::string expected;
    for (const std::string& name : names)
      expected += name + " Bearer " + std::string(kValue) + "\n";
    EXPECT_EQ(server_->exit().out, expected);
  }
  Program* server_ = nullptr;
};

TEST_F(Grpc, CarriesAPlaceholderInItsMetadata) {
  NEEDS("/usr/bin/python3 -c 'import grpc'");
  const std::string key = begin();
  const auto done = run({"/usr/bin/python3", "-c", kClient, key});
  EXPECT_EQ(done.out,
            "unary b'cba' True\ncount [b'0', b'1', b'2'] True\nsum b'300000' True\n"
            "chat [b'A', b'B'] True\n"
            "PERMISSION_DENIED | Received http2 header with status: 403\n"
            "unary b'cba' True\n"
            "PERMISSION_DENIED | Received http2 header with status: 403\n")
      << done.err;
  expect_calls({"unary", "count", "sum", "chat", "unary"});
}

TEST_F(Grpc, OfNodeDoesTheSame) {
  NEEDS("/usr/bin/python3 -c 'import grpc'");
  NEEDS_NPM();
  const auto done = npm_node({"node", "-e", kNodeClient, begin()});
  EXPECT_EQ(done.out,
            "unary cba true\ncount 0,1,2 true\nsum 300000 true\nchat A,B true\nPERMISSION_DENIED\n")
      << done.err;
  expect_calls({"unary", "count", "sum", "chat"});
}

}
}
