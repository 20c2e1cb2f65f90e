# Gray–Scott: two substances that react and spread, on a grid that lies in pages. Each step is a group of deltas with the bytes
# that have changed; now and then the pages are synced to a device, and a checkpoint is written while the steps go on. Whoever
# kills this program finds a whole step in the store, and the next run goes on from there, bit for bit.
#
#     julia gray_scott.jl STORE STEPS PICTURE.png
using MMSB

const N = 128                    # rows and columns
const STRIP = 16                 # rows of a page
const FEED, KILL = 0.0545f0, 0.062f0
const SPREAD_U, SPREAD_V = 0.16f0, 0.08f0
const STEP_PAGE = 1000           # id of the page that has the number of the last step

strips() = 1:N÷STRIP
id_of(substance, strip) = 100 * substance + strip
rows(strip) = (strip-1)*STRIP+1:strip*STRIP

"A square of V in the middle of U."
function first_grids()
    u, v = ones(Float32, N, N), zeros(Float32, N, N)
    middle = N÷2-8:N÷2+8
    u[middle, middle] .= 0.5f0
    v[middle, middle] .= 0.25f0
    return u, v
end

"The pages of a store: those of both substances, by strip, and that of the step."
function pages_of(state)
    bytes = STRIP * N * sizeof(Float32)
    if length(state) == 0
        for (substance, grid) in enumerate(first_grids()), strip in strips()
            page = create_page!(state, bytes; id = id_of(substance, strip))
            write_page!(page, bytes_of(grid[rows(strip), :]))
        end
        create_page!(state, 8; id = STEP_PAGE)
    end
    return [[get_page(state, id_of(substance, strip)) for strip in strips()] for substance in 1:2], get_page(state, STEP_PAGE)
end

bytes_of(part) = collect(reinterpret(UInt8, vec(part)))
grid_of(pages) = vcat((reshape(collect(reinterpret(Float32, read_page(page))), STRIP, N) for page in pages)...)

spread(grid, i, j) =
    grid[mod1(i - 1, N), j] + grid[mod1(i + 1, N), j] + grid[i, mod1(j - 1, N)] + grid[i, mod1(j + 1, N)] - 4 * grid[i, j]

function react(u, v)
    next_u, next_v = similar(u), similar(v)
    for j in 1:N, i in 1:N
        reaction = u[i, j] * v[i, j]^2
        next_u[i, j] = u[i, j] + SPREAD_U * spread(u, i, j) - reaction + FEED * (1 - u[i, j])
        next_v[i, j] = v[i, j] + SPREAD_V * spread(v, i, j) + reaction - (FEED + KILL) * v[i, j]
    end
    return next_u, next_v
end

"The pages become those of the next grids: only what differs is in a delta."
function change!(pages, before, after)
    for strip in strips()
        was, is = bytes_of(before[rows(strip), :]), bytes_of(after[rows(strip), :])
        mask = was .!= is
        any(mask) && apply_delta!(pages[strip], mask, is)
    end
end

function run(folder, steps)
    open_store(folder; simulate = :if_no_gpu) do state      # without a GPU, on a simulated device: asked for, never silent
        (pages_u, pages_v), step_page = pages_of(state)
        u, v = grid_of(pages_u), grid_of(pages_v)
        begun = reinterpret(Int64, read_page(step_page))[1]
        saved = nothing
        for step in begun+1:steps
            next_u, next_v = react(u, v)
            group(state) do                                  # all of a step, or nothing
                change!(pages_u, u, next_u)
                change!(pages_v, v, next_v)
                write_page!(step_page, reinterpret(UInt8, [step]))
            end
            u, v = next_u, next_v
            if step % 25 == 0
                sync_pages!(vcat(pages_u, pages_v), :gpu)    # what is newer on the host goes there
                saved === nothing || wait(saved)
                saved = async_checkpoint!(state)             # beside the next steps
                println("step ", step)
                flush(stdout)
            end
        end
        saved === nothing || wait(saved)
        return grid_of(pages_v)
    end
end

# ---- the picture ----

function crc32(bytes)
    sum = 0xffffffff
    for byte in bytes
        sum ⊻= byte
        for _ in 1:8
            sum = sum & 1 == 1 ? sum >> 1 ⊻ 0xedb88320 : sum >> 1
        end
    end
    return ~sum
end

function adler32(bytes)
    a, b = UInt32(1), UInt32(0)
    for byte in bytes
        a = (a + byte) % UInt32(65521)
        b = (b + a) % UInt32(65521)
    end
    return b << 16 | a
end

"A PNG of 8 bits a sample, whose bytes are stored as they are."
function write_png(path, colors)
    big(number) = reinterpret(UInt8, [hton(number)])
    height, width = size(colors)
    pixels = UInt8[]
    for i in 1:height
        push!(pixels, 0)                                     # the row is not filtered
        foreach(color -> append!(pixels, color), colors[i, :])
    end
    packed = UInt8[0x78, 0x01]
    for first in 1:65535:length(pixels)
        part = pixels[first:min(first + 65534, end)]
        last = first + 65534 >= length(pixels)
        append!(packed, [UInt8(last); reinterpret(UInt8, [htol(UInt16(length(part))), htol(~UInt16(length(part)))]); part])
    end
    append!(packed, big(adler32(pixels)))
    open(path, "w") do file
        write(file, b"\x89PNG\r\n\x1a\n")
        header = [big(UInt32(width)); big(UInt32(height)); UInt8[8, 2, 0, 0, 0]]
        for (name, bytes) in (("IHDR", header), ("IDAT", packed), ("IEND", UInt8[]))
            chunk = [codeunits(name); bytes]
            write(file, big(UInt32(length(bytes))), chunk, big(crc32(chunk)))
        end
    end
end

"From dark blue over turquoise to yellow."
function color(value)
    part = clamp(value / 0.4f0, 0, 1)
    return UInt8[round(UInt8, 255 * part^2), round(UInt8, 20 + 220 * part), round(UInt8, 90 + 120 * part * (1 - part))]
end

folder, steps, picture = ARGS[1], parse(Int, ARGS[2]), ARGS[3]
v = run(folder, steps)
write_png(picture, [color(v[(i+2)÷3, (j+2)÷3]) for i in 1:3N, j in 1:3N])
println("step ", steps, ", the most of V is ", maximum(v))
