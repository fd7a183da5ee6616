// Events as models send them, each with the time when it left.
//   egress_events.js serve ADDRESS CERTIFICATE KEY      /events/COUNT: one each 20 ms, over either version of HTTP
//   egress_events.js take 1.1|2 ADDRESS HOST AUTHORITY COUNT     prints how long each took, in milliseconds
const fs = require('fs'), https = require('https'), http2 = require('http2')
const now = () => Number(process.hrtime.bigint()) / 1e6 // CLOCK_MONOTONIC, which processes share

function serve(address, certificate, key) {
  http2.createSecureServer({cert: fs.readFileSync(certificate), key: fs.readFileSync(key), allowHTTP1: true}, (request, answer) => {
    let left = +request.url.split('/')[2]
    answer.writeHead(200, {'content-type': 'text/event-stream'})
    const timer = setInterval(() => {
      answer.write('data: ' + now() + '\n\n')
      if (--left == 0) { clearInterval(timer); answer.end() }
    }, 20)
    answer.on('close', () => clearInterval(timer))
  }).listen(443, address)
}

function take(version, address, host, authority, count) {
  const took = [], options = {ca: fs.readFileSync(authority), servername: host}
  let rest = ''
  const read = piece => {
    const arrived = now()
    rest += piece
    for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) took.push(arrived - +rest.slice(6, end))
  }
  const done = status => {
    if (status != 200 || took.length != +count) throw new Error(`${took.length} events, status ${status}`)
    console.log(JSON.stringify(took))
  }
  if (version == '2') {
    const session = http2.connect('https://' + host, {...options, lookup: (_, how, use) => how.all ? use(null, [{address, family: 4}]) : use(null, address, 4)})
    const stream = session.request({':path': '/events/' + count})
    let status
    stream.on('response', head => { status = head[':status'] })
    stream.on('data', read).on('end', () => { session.close(); done(status) })
  } else {
    https.get({...options, host: address, path: '/events/' + count, headers: {host}},
      answer => answer.on('data', read).on('end', () => done(answer.statusCode)))
  }
}

const [mode, ...words] = process.argv.slice(2);
({serve, take})[mode](...words)
